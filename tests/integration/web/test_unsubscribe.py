"""Leaving a mailing list over HTTP (RFC 8058), and which mails then still go out."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from html.parser import HTMLParser

import pytest
from sqlalchemy import Engine, select

from messaging import tenancy
from messaging.db.engine import create_engine
from messaging.embedded import free_port
from messaging.mail import unsubscribe as links
from messaging.suppression import SUPPRESSION
from tests.conftest import MakeSettings
from tests.integration.delivery.conftest import make_channel, make_desk  # noqa: F401 - fixtures
from tests.integration.delivery.desk import Desk
from tests.integration.delivery.records import A
from tests.integration.web.callers import FORM, PUBLIC_URL, Site
from tests.integration.web.conftest import Open

ONE_CLICK = b"List-Unsubscribe=One-Click"
MULTIPART = (
    b'--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n',
    "multipart/form-data; boundary=b",
)


class Page(HTMLParser):
    """What a browser would see: the words, and the forms with their fields."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.tags = "", []  # type: tuple[str, list[tuple[str, dict[str, str | None]]]]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    @property
    def forms(self) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == "form"]


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Iterator[Desk]:  # noqa: F811
    made = make_desk(multi_tenancy=True, public_base_url=PUBLIC_URL)
    before = tenancy.is_single_tenant()
    tenancy.use_multi_tenancy(True)
    made.add_server(tenant_id=-1)
    yield made
    tenancy.use_multi_tenancy(not before)


def link_of(desk: Desk, list_name: str = "news") -> str:
    """Path of the link in a mail that was sent."""
    record_id = desk.records.one(tenant_id=7, to=(f"Ann <{A}>",), unsubscribe_list=list_name)
    assert desk.deliver(record_id) == {"sent": 1}
    link: str = desk.records.row(record_id).headers["List-Unsubscribe"].strip("<>")
    assert link.startswith(f"{PUBLIC_URL}/")
    return link.removeprefix(PUBLIC_URL)


def listed(engine: Engine) -> list[tuple[int, str, str, str]]:
    t = SUPPRESSION.c
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(t.tenant_id, t.address, t.list, t.reason))]


def test_a_get_shows_a_page_a_post_leaves_the_list_and_only_that_list(site: Site, desk: Desk, engine: Engine) -> None:
    # operate.md O65
    path = link_of(desk)
    for _ in range(3):  # scanners of mails follow links
        answer = site.get(path)
        assert answer.status == 200
        page = Page(answer.text)
        assert "news" in page.words
        assert page.forms == [{"method": "post"}]
    assert listed(engine) == []

    wrong = path[:-1] + ("A" if path[-1] != "A" else "B")
    for token in (wrong, f"{links.PATH}x", f"{links.PATH}%00", path + "A"):
        assert site.get(token).status == site.post(token, ONE_CLICK, Content_Type=FORM).status == 404
    assert listed(engine) == []

    assert desk.deliver(desk.records.one(tenant_id=7, unsubscribe_list="news")) == {"sent": 1}
    for body, media_type in ((ONE_CLICK, FORM), MULTIPART):  # the second changes nothing
        answer = site.post(path, body, Content_Type=media_type)
        assert answer.status == 200
        assert Page(answer.text).forms == []
    assert listed(engine) == [(7, A, "news", "UNSUBSCRIBED")]
    assert Page(site.get(path).text).forms == []

    same, other, none = (desk.records.one(tenant_id=7, unsubscribe_list=name) for name in ("news", "offers", None))
    assert desk.deliver(same, other, none) == {"failed": 1, "sent": 2}
    assert desk.records.row(same).error_code == "SUPPRESSED"


def test_the_button_of_the_page_leaves_the_list(site: Site, desk: Desk, engine: Engine) -> None:
    path = link_of(desk)
    [button] = [attributes for tag, attributes in Page(site.get(path).text).tags if tag == "button"]
    body = f"{button['name']}={button['value']}".encode()
    assert body == ONE_CLICK
    assert site.post(path, body, Content_Type=FORM, Origin=PUBLIC_URL).status == 200
    assert listed(engine) == [(7, A, "news", "UNSUBSCRIBED")]


def test_clicks_at_once_leave_one_entry(site: Site, desk: Desk, engine: Engine) -> None:
    path = link_of(desk)
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(site.post(path, ONE_CLICK, Content_Type=FORM).status))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert statuses == [200] * 8
    assert len(listed(engine)) == 1


def test_a_page_runs_nothing_and_is_kept_nowhere(site: Site, desk: Desk) -> None:
    # sec-03, of the page with the list's name
    path = link_of(desk, "<script>alert(1)</script>")
    answer = site.get(path)
    page = Page(answer.text)
    assert "<script>alert(1)</script>" in page.words
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img", "link", "iframe"})
    assert A not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in policy
    assert (answer.headers["cache-control"], answer.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS"])
def test_no_other_method_does_anything(site: Site, desk: Desk, engine: Engine, method: str) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)) as connection:
        connection.request(method, link_of(desk), ONE_CLICK)
        assert connection.getresponse().status == 405
    assert listed(engine) == []


def test_the_database_being_away_is_told(open_site: Open, desk: Desk, make_settings: MakeSettings) -> None:
    path = link_of(desk)
    engine = create_engine(make_settings(database_url=f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"))
    site = open_site(engine=engine)
    assert site.get(path).status == site.post(path, ONE_CLICK).status == 503
    engine.dispose()
