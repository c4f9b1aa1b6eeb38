"""A small shop that confirms its orders by mail: each order and its mail are one transaction, and some roll back."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlalchemy import BigInteger, Engine, MetaData, Numeric, String, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from messaging.api import send_mail
from messaging.db.session import transaction
from messaging.demo.capture_server import GREYLISTED_DOMAIN, REFUSED_DOMAIN, SILENT_DOMAIN
from messaging.mail.models import MailSendServerConfig
from messaging.requests import Priority


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


@dataclass(frozen=True, slots=True)
class Accepted:
    """An order and the record id that `send_mail` answered inside its transaction."""

    order: Order
    mail_id: int


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
_COUNTS = {Fate.TAKEN: 24, Fate.GREYLISTED: 4, Fate.REFUSED: 4, Fate.ROLLED_BACK: 4, Fate.PARTLY: 2}
_DOMAINS = {Fate.KILLED: SILENT_DOMAIN, Fate.GREYLISTED: GREYLISTED_DOMAIN, Fate.REFUSED: REFUSED_DOMAIN}


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


def _order(number: int, fate: Fate) -> Order:
    customer = _CUSTOMERS[number % len(_CUSTOMERS)]
    item, price = _ITEMS[number % len(_ITEMS)]
    quantity = 1 + number % 3
    address = f"customer-{number}@{_DOMAINS.get(fate, 'example.com')}"
    return Order(number, customer, address, f"{quantity} x {item}", round(quantity * price, 2), fate)


def open_shop(engine: Engine, *, smtp_port: int) -> None:
    """Make the shop's table, and configure the server its mail goes out by."""
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA shop"))
        ShopBase.metadata.create_all(connection)
    with transaction(engine) as session:
        session.add(
            MailSendServerConfig(
                name="captured mail",
                host="127.0.0.1",
                port=smtp_port,
                from_address="orders@shop.example.com",
                from_name="The Small Shop",
                reply_to_address="Customer Care <care@shop.example.com>",
                is_default=True,
            )
        )


def place(engine: Engine, order: Order) -> Accepted:
    """Store an order and hand its confirmation over, in one transaction: both happen, or neither."""
    accepted: Accepted | None = None
    try:
        with transaction(engine) as session:
            accepted = Accepted(order, _confirm(session, order))
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
        subject=f"Your order {order.number}: {order.item}",
        html_body=(
            f"<p>Dear {order.customer},</p><p>thank you for your order <b>{order.number}</b>.</p>"
            f"<table><tr><td>{order.item}</td><td>{order.total:.2f} €</td></tr></table>"
            "<p>It leaves our house tomorrow.<br>The Small Shop</p>"
        ),
        priority=Priority.HIGH if order.number % 10 == 0 else None,
        idempotency_key=f"order-{order.number}",
    )


def has_order(session: Session, number: int) -> bool:
    """Whether an order was stored."""
    return session.get(ShopOrder, number) is not None
