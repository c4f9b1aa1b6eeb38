"""What code on every page may name: an application's own things."""

import os
from dataclasses import dataclass

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

engine = create_engine(os.environ["MESSAGING_DATABASE_URL"])
broker_url = os.environ["MESSAGING_REDIS_URL"]
smtp_password = imap_password = "a secret of nobody's"

with engine.begin() as connection:
    connection.execute(text("CREATE TABLE IF NOT EXISTS shop_order (number int PRIMARY KEY, address text)"))


@dataclass(frozen=True)
class Order:
    number: int
    name: str
    address: str


basket = ["lamp"]


def place_order(session: Session, basket: list[str]) -> Order:
    number = session.scalar(text("INSERT INTO shop_order SELECT count(*) + 1 FROM shop_order RETURNING number"))
    return Order(number, "Ann Example", "ann@example.org")


def confirmation_html(order: Order) -> str:
    return f"<p>Thank you for order {order.number}.</p>"
