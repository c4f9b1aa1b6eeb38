"""Tables of operators, their sessions, and tokens. Of a password, a token and a session only a hash is kept."""

from datetime import datetime
from typing import ClassVar

from sqlalchemy import BigInteger, Identity, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from messaging.access.roles import Role
from messaging.audit import SECRET, Noted
from messaging.db.active import Switchable
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.checks import one_of
from messaging.db.filters import TenantOwned


class ApiToken(Noted, TenantOwned, Audited, Base):
    """A key by which a service calls, for one tenant and with one role."""

    __tablename__ = "api_token"
    unnoted = frozenset({"last_used_at"})
    noted_as: ClassVar[dict[str, str]] = {"revoked_at": "revoke"}
    __table_args__ = (
        UniqueConstraint("token_hash"),
        one_of("role", Role, "role"),
        Index("ix_api_token_tenant", "tenant_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    name: Mapped[str] = mapped_column(String(100))
    #: SHA-256 of the token, in hex.
    token_hash: Mapped[str] = mapped_column(String(64), info={**SECRET})
    #: Its first characters, by which people tell tokens apart.
    prefix: Mapped[str] = mapped_column(String(20))
    role: Mapped[str] = mapped_column(String(20))
    #: The person of the application it acts for; null: none.
    user_id: Mapped[int | None] = mapped_column(BigInteger)
    expires_at: Mapped[datetime | None] = mapped_column(Timestamp)
    revoked_at: Mapped[datetime | None] = mapped_column(Timestamp)
    #: To the minute.
    last_used_at: Mapped[datetime | None] = mapped_column(Timestamp)


class Operator(Noted, TenantOwned, Switchable, Audited, Base):
    """A person who signs in."""

    __tablename__ = "operator"
    unnoted = frozenset({"last_signed_in_at"})
    noted_as: ClassVar[dict[str, str]] = {"password_hash": "set password"}
    __table_args__ = (
        # Signing in names no tenant.
        UniqueConstraint("user_name"),
        one_of("role", Role, "role"),
        Index("ix_operator_tenant", "tenant_id", "id"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: In lower case.
    user_name: Mapped[str] = mapped_column(String(100))
    display_name: Mapped[str | None] = mapped_column(String(100))
    #: Argon2id, with its parameters; null: may not sign in by a password.
    password_hash: Mapped[str | None] = mapped_column(String(255), deferred=True, info={**SECRET})
    role: Mapped[str] = mapped_column(String(20))
    #: The application's id of this person, whose inbox it is; null: has none.
    user_id: Mapped[int | None] = mapped_column(BigInteger)
    last_signed_in_at: Mapped[datetime | None] = mapped_column(Timestamp)


class OperatorLink(TenantOwned, Base):
    """A way to sign in once, without a password, until it is used or runs out."""

    __tablename__ = "operator_link"
    __table_args__ = (UniqueConstraint("token_hash"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    operator_id: Mapped[int] = mapped_column(BigInteger)
    #: SHA-256 of what the link holds, in hex.
    token_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(Timestamp)
    expires_at: Mapped[datetime] = mapped_column(Timestamp)


class OperatorSession(TenantOwned, Base):
    """One sign-in, until it is ended or runs out."""

    __tablename__ = "operator_session"
    __table_args__ = (
        UniqueConstraint("token_hash"),
        Index("ix_operator_session_operator", "operator_id"),
        Index("ix_operator_session_expires", "expires_at"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    operator_id: Mapped[int] = mapped_column(BigInteger)
    #: SHA-256 of what the cookie holds, in hex.
    token_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime] = mapped_column(Timestamp)
    expires_at: Mapped[datetime] = mapped_column(Timestamp)
    #: To the minute.
    last_seen_at: Mapped[datetime] = mapped_column(Timestamp)
