"""Shops that confirm their orders by mail, some by text message, too: order and messages are one transaction.

Two shops are tenants of one installation, and the platform they rent sells plans to shops by the same means.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum

from sqlalchemy import BigInteger, Engine, MetaData, Numeric, String, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from messaging import tenancy
from messaging.api import send_mail, send_sms
from messaging.db.session import transaction
from messaging.demo.answers import Answer
from messaging.demo.capture_server import ANSWERING_DOMAINS, GREYLISTED_DOMAIN, REFUSED_DOMAIN, SILENT_DOMAIN
from messaging.demo.text_server import OPTED_OUT, SWITCHED_OFF, THROTTLED
from messaging.mail.models import MailSendServerConfig
from messaging.requests import MessageScope, Priority


class Fate(Enum):
    """What is to become of an order's mail."""

    #: Its worker is killed after the server took it and before it said so.
    KILLED = "worker killed in the middle of the send"
    #: Taken at the first attempt.
    TAKEN = "ordinary"
    #: Refused twice, then taken.
    GREYLISTED = "refused twice, then taken"
    #: Refused for good.
    REFUSED = "refused for good"
    #: One recipient is taken, one refused for good.
    PARTLY = "one recipient refused for good"
    #: The order is rolled back after its mail was accepted.
    ROLLED_BACK = "order rolled back"
    #: Goes out by a server that takes one mail a minute: the first at once, the others at places of their own.
    WINDOWED = "server behind a small window"
    #: One of more mails than the tenant's quota of the month allows.
    LIMITED = "more mails than the quota"
    #: Its template would never end.
    HOSTILE = "hostile template"
    #: Sent with the platform's template and server.
    PLATFORM = "the platform's own"
    #: Taken, and then a bounce says that there is no such mailbox.
    BOUNCED = "taken, then bounced"
    #: Taken; it asks for a read receipt, which comes.
    READ = "read, as its receipt says"
    #: Taken, and answered by a program.
    AWAY = "answered by a vacation reply"
    #: The next order of the one whose mail bounced: nothing is sent to that address any more.
    SUPPRESSED = "to an address that bounced"


class TextFate(Enum):
    """What is to become of an order's text message."""

    #: Taken, and on the handset.
    DELIVERED = "delivered"
    #: One too many at once for the provider; taken when it said, and on the handset.
    THROTTLED = "throttled once"
    #: Taken, and the handset is not reached.
    UNDELIVERED = "handset switched off"
    #: Refused: the number's owner wants none.
    REFUSED = "opted out"


class ShopBase(DeclarativeBase):
    """The shop's tables, in a schema of their own: they are none of the product's."""

    metadata = MetaData(schema="shop")


class ShopOrder(ShopBase):
    """One order."""

    __tablename__ = "shop_order"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    customer: Mapped[str] = mapped_column(String(100))
    item: Mapped[str] = mapped_column(String(100))
    total: Mapped[float] = mapped_column(Numeric(10, 2))
    #: Id of its mail's record.
    mail_id: Mapped[int] = mapped_column(BigInteger)


class PaymentDeclined(Exception):
    """Why an order is rolled back."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order as the shop gets it."""

    number: int
    customer: str
    address: str
    item: str
    total: float
    fate: Fate
    #: None: no text message goes with it.
    text_fate: TextFate | None = None

    @property
    def phone_number(self) -> str:
        """The customer's: none that anybody has."""
        return _NUMBERS.get(self.text_fate, f"+141555501{self.number % 100:02}")

    @property
    def seller(self) -> "Seller":
        """Whose order it is."""
        return _SELLERS.get(self.fate, SHOP)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An order and the record ids that `send_mail` and `send_sms` answered inside its transaction."""

    order: Order
    mail_id: int
    #: None: no text message goes with it.
    text_id: int | None = None

    @property
    def record_ids(self) -> list[int]:
        """Of all its messages."""
        return [self.mail_id] if self.text_id is None else [self.mail_id, self.text_id]


_CUSTOMERS = (
    "Ada Lovelace",
    "Grace Hopper",
    "Søren Ibsen",
    "Zoë Müller",
    "Chen Wei",
    "Amara Okafor",
    "José García",
    "Mary Jackson",
)
_ITEMS = (
    ("Copper kettle", 48.5),
    ("Reading lamp", 39.0),
    ("Wool blanket", 89.9),
    ("Oak stool", 64.0),
    ("Tea, 250 g", 12.4),
)

#: How many orders of each fate, in the order in which each fate first comes; the killed one comes first and alone.
_COUNTS = {
    Fate.TAKEN: 16,
    Fate.GREYLISTED: 4,
    Fate.REFUSED: 4,
    Fate.ROLLED_BACK: 4,
    Fate.PARTLY: 2,
    Fate.WINDOWED: 3,
    Fate.LIMITED: 7,
    Fate.HOSTILE: 1,
    Fate.PLATFORM: 2,
    **dict.fromkeys((Fate.BOUNCED, Fate.READ, Fate.AWAY), 1),
}

#: What becomes of the mails of an ordinary day, turn by turn.
_ORDINARY = (
    *(Fate.TAKEN,) * 4,
    Fate.PLATFORM,
    *(Fate.TAKEN,) * 3,
    Fate.GREYLISTED,
    *(Fate.TAKEN,) * 4,
    Fate.REFUSED,
    *(Fate.TAKEN,) * 3,
    Fate.PARTLY,
    Fate.READ,
)

#: What is to come back of a mail.
ANSWERS = {Fate.BOUNCED: Answer.BOUNCED, Fate.READ: Answer.READ, Fate.AWAY: Answer.REPLIED}

_DOMAINS = {Fate.KILLED: SILENT_DOMAIN, Fate.GREYLISTED: GREYLISTED_DOMAIN, Fate.REFUSED: REFUSED_DOMAIN}
_DOMAINS |= {fate: domain for fate, answer in ANSWERS.items() for domain, a in ANSWERING_DOMAINS.items() if a is answer}

#: By the order's number; the fifth order is rolled back.
_TEXTS = {
    2: TextFate.THROTTLED,
    3: TextFate.DELIVERED,
    4: TextFate.REFUSED,
    5: TextFate.DELIVERED,
    6: TextFate.UNDELIVERED,
}
_NUMBERS: dict[TextFate | None, str] = {
    TextFate.THROTTLED: THROTTLED,
    TextFate.REFUSED: OPTED_OUT,
    TextFate.UNDELIVERED: SWITCHED_OFF,
}

#: Codes of the templates; the first is that of mails and of text messages.
CONFIRMATION, HOSTILE = "order-confirmation", "never-ends"
#: Name of the server behind a small window.
NARROW_SERVER = "one mail a minute"

#: Mails a month of the second shop.
QUOTA = 5
#: Mails a minute of the first shop's second server.
WINDOW_PER_MINUTE = 1


@dataclass(frozen=True, slots=True)
class Seller:
    """A tenant, or the platform."""

    tenant_id: int
    name: str
    address: str
    #: Of its logo, as red, green and blue.
    colour: tuple[int, int, int]

    def acting(self) -> AbstractContextManager[object]:
        """Code that runs in its name."""
        return tenancy.tenant(self.tenant_id)


SHOP = Seller(1, "The Small Shop", "orders@shop.example.com", (0xB0, 0x5A, 0x2C))
BOOKS = Seller(2, "Corner Books", "books@corner.example.com", (0x2C, 0x5A, 0xB0))
PLATFORM = Seller(tenancy.PLATFORM_TENANT_ID, "Market Square", "plans@market.example.com", (0x2C, 0x80, 0x50))
SELLERS = (SHOP, BOOKS, PLATFORM)
_SELLERS = {Fate.LIMITED: BOOKS, Fate.HOSTILE: BOOKS, Fate.PLATFORM: PLATFORM}


def first_order() -> Order:
    """The one whose mail is in flight when its worker is killed."""
    return _order(1, Fate.KILLED)


def further_orders() -> Iterator[Order]:
    """All others: first one of each kind, then turn by turn until each kind has its number."""
    left = dict(_COUNTS)
    number = 1
    while any(left.values()):
        for fate in [fate for fate, count in left.items() if count]:
            # The slow ones come early: a mail refused twice waits for its third attempt.
            left[fate] -= 1
            number += 1
            yield _order(number, fate)


def passing_orders(number: int) -> Iterator[Order]:
    """Orders from this number on, without an end, as an ordinary day brings them: most mails are taken at once."""
    while True:
        fate = _ORDINARY[number % len(_ORDINARY)]
        yield replace(_order(number, fate), text_fate=TextFate.DELIVERED if number % 3 == 0 else None)
        number += 1


def another_order(earlier: Order, number: int) -> Order:
    """One more of a customer whose mail bounced."""
    return replace(earlier, number=number, fate=Fate.SUPPRESSED, text_fate=None)


def _order(number: int, fate: Fate) -> Order:
    customer = _CUSTOMERS[number % len(_CUSTOMERS)]
    item, price = _ITEMS[number % len(_ITEMS)]
    quantity = 1 + number % 3
    address = f"customer-{number}@{_DOMAINS.get(fate, 'example.com')}"
    total = round(quantity * price, 2)
    return Order(number, customer, address, f"{quantity} x {item}", total, fate, _TEXTS.get(number))


def open_shops(engine: Engine) -> None:
    """Make the shops' table: it is none of the product's."""
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA shop"))
        ShopBase.metadata.create_all(connection)


def place(engine: Engine, order: Order) -> Accepted:
    """Store an order and hand its confirmations over, in one transaction: all of it happens, or nothing."""
    accepted: Accepted | None = None
    try:
        with order.seller.acting(), transaction(engine) as session:
            accepted = Accepted(order, _confirm(session, order), _announce(session, order))
            session.add(
                ShopOrder(
                    id=order.number,
                    customer=order.customer,
                    item=order.item,
                    total=order.total,
                    mail_id=accepted.mail_id,
                )
            )
            session.flush()
            if order.fate is Fate.ROLLED_BACK:
                raise PaymentDeclined(order.number)
    except PaymentDeclined:
        pass
    assert accepted is not None
    return accepted


def _confirm(session: Session, order: Order) -> int:
    return send_mail(
        session=session,
        to=[f'"{order.customer}" <{order.address}>'],
        cc=[f"gift-{order.number}@{REFUSED_DOMAIN}"] if order.fate is Fate.PARTLY else (),
        template_code=HOSTILE if order.fate is Fate.HOSTILE else CONFIRMATION,
        template_variables={
            "order": {"number": order.number, "items": [{"name": order.item, "price": order.total}]},
            "customer": order.customer,
            "shop": order.seller.name,
        },
        scope=MessageScope.PLATFORM if order.seller is PLATFORM else MessageScope.TENANT,
        server_config_id=_narrow_server(session) if order.fate is Fate.WINDOWED else None,
        read_receipt_requested=order.fate is Fate.READ or None,
        priority=Priority.HIGH if order.number % 10 == 0 else None,
        idempotency_key=f"order-{order.number}",
    )


def _announce(session: Session, order: Order) -> int | None:
    if order.text_fate is None:
        return None
    return send_sms(
        session=session,
        phone_number=order.phone_number,
        template_code=CONFIRMATION,
        template_variables={"order": order.number, "shop": order.seller.name},
        idempotency_key=f"order-{order.number}",
    )


def _narrow_server(session: Session) -> int:
    return session.scalars(select(MailSendServerConfig.id).where(MailSendServerConfig.name == NARROW_SERVER)).one()


def has_order(session: Session, number: int) -> bool:
    """Whether an order was stored."""
    return session.get(ShopOrder, number) is not None
