"""What the demo says of received mails and the suppression list that are not as they ought to be."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from messaging import api, tenancy
from messaging.demo.answer_evidence import read_answers, wrong_answers
from messaging.demo.answers import Answer
from messaging.demo.shop import ANSWERS, SHOP, Accepted, Fate, further_orders
from messaging.settings import Settings
from tests.integration.receive.books import Books, failed

TENANT = SHOP.tenant_id


@pytest.fixture
def books(make_settings: Callable[..., Settings], engine: Engine) -> Iterator[Books]:
    settings = make_settings(multi_tenancy=True)
    api.configure(settings, engine=engine)
    yield Books(engine, settings)
    tenancy.use_multi_tenancy(False)


class Shop:
    """The three mails that something comes back of, as they were sent."""

    def __init__(self, books: Books) -> None:
        self.books = books
        orders = {order.fate: order for order in further_orders() if order.fate in ANSWERS}
        self.accepted = {
            fate: Accepted(order, books.sent(order.address, tenant_id=TENANT)) for fate, order in orders.items()
        }

    def come_back(self, *answers: Answer) -> None:
        """These mails are received and linked."""
        bounced, read, away = (self.accepted[fate] for fate in (Fate.BOUNCED, Fate.READ, Fate.AWAY))
        if Answer.BOUNCED in answers:
            self.books.bounce(bounced.mail_id, failed(bounced.order.address), tenant_id=TENANT)
        if Answer.READ in answers:
            self.books.receipt(read.mail_id, tenant_id=TENANT)
        if Answer.REPLIED in answers:
            self.books.received(
                None,
                mail_type="AUTO_REPLY",
                from_address=away.order.address,
                link_status="NONE",
                tenant_id=TENANT,
            )
        self.books.linker.link_pending(1, owner_tenant_id=TENANT, limit=10)

    def known(self) -> list[Answer | None]:
        with tenancy.all_tenants(), Session(self.books.engine) as session:
            found = read_answers(session, list(self.accepted.values()))
        return [found.get(self.accepted[fate].mail_id) for fate in ANSWERS]

    def wrong(self) -> list[str]:
        return wrong_answers(list(self.accepted.values()))


@pytest.fixture
def shop(books: Books) -> Shop:
    return Shop(books)


def test_what_comes_back_is_known_and_right(shop: Shop) -> None:
    assert shop.known() == [None, None, None]
    shop.come_back(*Answer)
    assert shop.known() == [Answer.BOUNCED, Answer.READ, Answer.REPLIED]
    assert shop.wrong() == []


@pytest.mark.parametrize("missing", Answer)
def test_what_is_missing_is_told(shop: Shop, missing: Answer) -> None:
    shop.come_back(*(answer for answer in Answer if answer is not missing))
    position = list(Answer).index(missing)
    assert shop.known()[position] is None
    told = shop.wrong()
    assert "2 mails were received, not 3" in told
    assert any("was received for mail" in line for line in told)
    assert any(line.startswith("suppressed are") for line in told) is (missing is Answer.BOUNCED)


def test_what_is_about_another_mail_or_of_another_address_is_told(shop: Shop) -> None:
    shop.come_back(*Answer)
    bounced = shop.accepted[Fate.BOUNCED]
    shop.accepted[Fate.BOUNCED] = replace(bounced, mail_id=bounced.mail_id + 100)
    assert any("it is about another one" in line for line in shop.wrong())
    shop.accepted[Fate.BOUNCED] = replace(bounced, order=replace(bounced.order, address="ben@example.com"))
    assert any(line.startswith("suppressed are") for line in shop.wrong())
