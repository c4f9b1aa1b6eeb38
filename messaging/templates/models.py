"""The columns that templates of every channel have."""

from sqlalchemy import BigInteger, Boolean, Identity, String
from sqlalchemy.orm import Mapped, mapped_column

from messaging.audit import Noted
from messaging.db.active import Switchable
from messaging.db.base import Audited
from messaging.db.filters import TenantOwned


class TemplateColumns(Noted, TenantOwned, Switchable, Audited):
    """A template's names and switches; unique by tenant and code. Records that name it by id use it disabled, too."""

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    code: Mapped[str] = mapped_column(String(100))
    name: Mapped[str] = mapped_column(String(100))
    description: Mapped[str | None] = mapped_column(String(500))
    #: A missing variable fails the record.
    strict: Mapped[bool] = mapped_column(Boolean, server_default="false")
    #: What a record of it holds of text and variables is removed once it is sent; a hash stays.
    redact: Mapped[bool] = mapped_column(Boolean, server_default="false")
