"""What an operator configures before the shops open: servers, a provider of text messages, a quota, templates."""

import struct
import zlib
from dataclasses import dataclass, field

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from messaging import api
from messaging.access.roles import Role
from messaging.api import access
from messaging.db.session import transaction
from messaging.demo.mailbox_server import USER
from messaging.demo.shop import (
    BOOKS,
    CONFIRMATION,
    HOSTILE,
    NARROW_SERVER,
    PLATFORM,
    QUOTA,
    SELLERS,
    SHOP,
    WINDOW_PER_MINUTE,
    Seller,
)
from messaging.demo.text_server import ACCOUNT, SENDER
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.receive.mailbox_checks import MIN_INTERVAL_SECONDS
from messaging.requests import BodyMode
from messaging.sms.models import SmsTemplate

_HTML = """\
<html>
<head><style>
  td { padding: 4px 12px; border-bottom: 1px solid #ddd; }
  .total { font-weight: bold; }
</style></head>
<body>
<p><img src="cid:logo" alt="{{ shop }}" width="32" height="32"></p>
<p>Dear {{ customer }},</p>
<p>thank you for your order <b>{{ order.number }}</b>.</p>
<table>
{% for item in order.items %}<tr><td>{{ item.name }}</td><td>{{ "%.2f" | format(item.price) }} €</td></tr>
{% endfor %}<tr class="total"><td>Total</td><td>{{ "%.2f" | format(order.items | sum(attribute="price")) }} €</td></tr>
</table>
<p>It leaves our house tomorrow.<br>{{ shop }}</p>
</body>
</html>
"""
_SUBJECT = "Your order {{ order.number }}: {{ order.items | map(attribute='name') | join(', ') }}"

#: A quadrillion turns, without a word of output.
_NEVER_ENDS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
    "{% endfor %}{% endfor %}{% endfor %}{{ 'x' * 10 ** 10 }}"
)
_TERMS = "Returns within 14 days. Rückgabe innerhalb von 14 Tagen. 14日以内に返品できます。\n"


#: Quotes and a dash that the alphabet of text messages lacks: `to_gsm` saves half of the price.
_TEXT = "“{{ shop }}”: thank you – your order {{ order }} leaves our house tomorrow…"


#: Who looks at the console.
OPERATOR = "demo"
#: Who that is in the platform's application: whose notifications the bell shows.
_PERSON = 1


@dataclass(frozen=True, slots=True)
class TextAccount:
    """The account at the provider of text messages."""

    #: Where its API begins.
    endpoint: str
    auth_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MailboxAccount:
    """The first shop's mailbox."""

    port: int
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HookAccount:
    """Where the first shop's own application is told events."""

    url: str
    secret: str = field(repr=False)


def configure_shops(
    engine: Engine, *, smtp_port: int, texts: TextAccount, mailbox: MailboxAccount, hooks: HookAccount
) -> None:
    """Write everything; afterwards each shop can send."""
    for seller in SELLERS:
        with seller.acting(), transaction(engine) as session:
            session.add(_server(seller, smtp_port, name="captured mail", is_default=True))
            session.add(_confirmation(session, seller))
    with SHOP.acting(), transaction(engine) as session:
        session.add(_server(SHOP, smtp_port, name=NARROW_SERVER, rate_limit_per_minute=WINDOW_PER_MINUTE))
        session.add(SmsTemplate(code=CONFIRMATION, name="Order confirmation", content=_TEXT, to_gsm=True))
        _add_provider(session, texts)
        _add_mailbox(session, mailbox)
        api.add_webhook_endpoint(session=session, name="shop", url=hooks.url, secret=hooks.secret)
    with BOOKS.acting(), transaction(engine) as session:
        session.add(
            MailTemplate(code=HOSTILE, name="Never ends", subject="x", body_text=_NEVER_ENDS, body_mode=BodyMode.PLAIN)
        )
    with PLATFORM.acting():
        api.set_quota_limits(BOOKS.tenant_id, mail=QUOTA)
        # Signs in by a link only.
        access.add_operator(OPERATOR, role=Role.PLATFORM, display_name="Demo", user_id=_PERSON)
        api.send_inbox(recipient_id=_PERSON, title="Welcome", content="The shops are open: look at the dashboard.")


def _add_provider(session: Session, texts: TextAccount) -> None:
    """The provider, which each message tells where its receipts come to, and the one country that it serves."""
    provider_id = api.add_sms_provider(
        session=session,
        name="captured text messages",
        provider_type="TWILIO",
        api_key=ACCOUNT,
        api_secret=texts.auth_token,
        api_endpoint=texts.endpoint,
        sender_number=SENDER,
    )
    api.add_sms_route(provider_id, "US", session=session)


def _add_mailbox(session: Session, mailbox: MailboxAccount) -> None:
    """Where bounces and receipts of the shop's mails come to; beat has it fetched as often as it may."""
    api.add_mailbox(
        session=session,
        name="orders",
        protocol="IMAP",
        host="127.0.0.1",
        port=mailbox.port,
        username=USER,
        password=mailbox.password,
        fetch_interval_seconds=MIN_INTERVAL_SECONDS,
        is_default=True,
    )


def _server(seller: Seller, port: int, **columns: object) -> MailSendServerConfig:
    return MailSendServerConfig(
        host="127.0.0.1",
        port=port,
        from_address=seller.address,
        from_name=seller.name,
        reply_to_address=f"Customer Care <care@{seller.address.partition('@')[2]}>",
        **columns,
    )


def _confirmation(session: Session, seller: Seller) -> MailTemplate:
    """Every tier has its own copy; its logo and its terms are stored once and go with every mail."""
    store = api.environment().files.store
    logo = store(session, _logo(seller), file_name="logo.png", content_type="image/png", tenant_id=seller.tenant_id)
    terms = store(
        session, _TERMS.encode(), file_name="terms.txt", content_type="text/plain", tenant_id=seller.tenant_id
    )
    return MailTemplate(
        code=CONFIRMATION,
        name="Order confirmation",
        subject=_SUBJECT,
        body_html=_HTML,
        body_mode=BodyMode.HTML_WITH_DERIVED_PLAIN,
        inline_css=True,
        attachments=[
            {"file_id": logo, "file_name": "logo.png", "content_type": "image/png", "content_id": "logo"},
            {"file_id": terms, "file_name": "Terms – 返品.txt", "content_type": "text/plain", "content_id": None},
        ],
    )


def _logo(seller: Seller, size: int = 32) -> bytes:
    """A square in the seller's colour, as PNG."""
    row = b"\0" + bytes(seller.colour) * size

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)),
            chunk(b"IDAT", zlib.compress(row * size)),
            chunk(b"IEND", b""),
        )
    )
