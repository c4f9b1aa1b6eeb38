"""The shop on FastAPI: an order, its mail and its notification hold together, and clerks read theirs over our API."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine, text

from examples.fastapi_app.app import create_shop
from messaging.settings import Settings

KEY = {"x-shop-key": "ann's"}


@pytest.fixture
def shop(settings: Settings, engine: Engine, unconfigured: None) -> Iterator[TestClient]:
    with TestClient(create_shop(settings)) as client:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO shop_clerk (id, key) VALUES (41, :key)"), {"key": KEY["x-shop-key"]})
        yield client


def counts(engine: Engine) -> tuple[int, ...]:
    with engine.connect() as connection:
        tables = ("shop_order", "mail_send_record", "inbox_notification")
        return tuple(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() for table in tables)


def test_an_order_its_mail_and_its_notification_are_one_transaction(shop: TestClient, engine: Engine) -> None:
    taken = shop.post("/orders", json={"item": "lamp", "customer": "bob@example.com"})
    assert taken.status_code == 201
    assert counts(engine) == (1, 1, 1)
    status = shop.get(f"/messaging/api/v1/mail/messages/{taken.json()['mail_id']}/status", headers=KEY).json()
    assert (status["status"], status["subject"]) == ("PENDING", f"Your order {taken.json()['order_id']}")


def test_what_is_rolled_back_sends_nothing(shop: TestClient, engine: Engine) -> None:  # operate.md O23
    assert shop.post("/orders", json={"item": "moon", "customer": "bob@example.com"}).status_code == 409
    assert counts(engine) == (0, 0, 0)


def test_a_clerk_is_known_by_the_shops_own_key(shop: TestClient) -> None:
    shop.post("/orders", json={"item": "chair", "customer": "bob@example.com"})
    inbox = "/messaging/api/v1/inbox/me"
    assert shop.get(inbox).status_code == shop.get(inbox, headers={"x-shop-key": "nobody's"}).status_code == 401
    (note,) = shop.get(inbox, headers=KEY).json()["items"]
    assert (note["title"], note["source_model"]) == ("To be packed", "Order")
    assert shop.get("/messaging/api/v1/me", headers=KEY).json()["actor"] == "user:41"
    assert shop.post(f"{inbox}/{note['id']}/read", headers=KEY).json() == {"marked": True}
    assert shop.get(f"{inbox}/unread-count", headers=KEY).json() == {"unread_count": 0}
