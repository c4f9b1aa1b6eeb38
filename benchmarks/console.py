"""The console beside ten million mails: how long its first page, lists, filters and searches take to be answered.

Measured: pages over HTTP from one process as an operator starts it, each several times in turn after one that is not
counted; as an operator of one of 200 tenants sees them and as the platform does. The bar is a second for each, at its
slowest.

What would make it lie: a history that is all in memory (it is more than the server's buffers hold); statistics that are
not there (tables are analysed, as autovacuum does); only rows that were sent (some of each state are the newest); a
filter that finds what it looks for at once (one asks for a template and a server that no record has).
"""

import http.client
import re
import time
from collections.abc import Iterator
from urllib.parse import urlencode

from sqlalchemy.orm import Session

from benchmarks.harness.database import Database
from benchmarks.harness.figure import Figure, at_most
from benchmarks.harness.stand import Stand
from benchmarks.harness.web import web
from messaging import tenancy
from messaging.access.roles import Role
from messaging.api import access

HISTORY = 10_000_000
#: The newest mails, by state, each with an error that fits.
OPEN = {"FAILED": 20_000, "RETRY": 20_000, "DEAD_LETTER": 5_000}
TENANT = 7
ROUNDS = 5
#: Seconds for a page.
BAR = 1.0

_PASSWORD = "correct horse battery"
_VARIABLES = {"MESSAGING_MULTI_TENANCY": "true", "MESSAGING_API__RATE_PER_SECOND": "100000"}


def run(stand: Stand) -> Iterator[Figure]:
    database = stand.database("console")
    database.insert_history(HISTORY)
    for status, count in OPEN.items():
        database.insert(
            count,
            {"tenant_id": "n % 200", "status": f"'{status}'", "error_code": "'SMTP_550_5.1.1'", "template_code": "'a'"},
        )
    database.run("VACUUM ANALYZE mail_send_record", "CHECKPOINT")
    _add_operators(database)
    some = int(database.scalar(f"SELECT max(id) FROM mail_send_record WHERE tenant_id = {TENANT} AND status = 'SENT'"))
    with web(stand, "console", _VARIABLES) as application:
        for who, name in (("a tenant", "viewer"), ("the platform", "platform")):
            browser = Browser(application.port, name)
            for what, path in _pages(some).items():
                yield Figure(f"console, {who}: {what}", browser.slowest(path), "s", bar=at_most(BAR))
            deep = browser.deep("/console/mail?status=FAILED")
            yield Figure(f"console, {who}: failed ones, page 20", deep, "s", bar=at_most(BAR))


def _pages(some: int) -> dict[str, str]:
    """By what they show."""
    asked = {
        "no filter": {},
        "by status": {"status": "FAILED"},
        "sent ones": {"status": "SENT"},
        "a template that none has": {"template": "none"},
        "a server that none has": {"server": "999"},
        "by error": {"error": "SMTP_550_5.1.1"},
        "an error that none has": {"error": "NONE"},
        "by time": {"since": "2020-01-01 00:00", "until": "2035-01-01 00:00"},
        "by id": {"q": str(some)},
        "by a recipient that none has": {"q": "nobody@example.org"},
        "by a Message-ID that none has": {"q": "<none@example.org>"},
        "by a key that none has": {"q": "none"},
    }
    lists = {f"mail, {what}": f"/console/mail?{urlencode(fields)}" for what, fields in asked.items()}
    return {
        "dashboard": "/console/",
        "dashboard, 7 days": "/console/?window=7d",
        **lists,
        "counts": "/console/mail/counts",
        "counts by template": "/console/mail/counts?template=none",
        "one record": f"/console/mail/{some}",
        "text messages": "/console/sms",
    }


def _add_operators(database: Database) -> None:
    database.use()
    tenancy.use_multi_tenancy(True)
    try:
        with Session(database.engine) as session:
            for tenant, name, role in ((TENANT, "viewer", Role.VIEWER), (-1, "platform", Role.PLATFORM)):
                with tenancy.tenant(tenant):
                    access.add_operator(name, password=_PASSWORD, role=role, session=session)
                    session.flush()
            with tenancy.all_tenants():
                session.commit()
    finally:
        tenancy.use_multi_tenancy(False)


class Browser:
    """One operator who has signed in, over one kept connection."""

    def __init__(self, port: int, name: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        form = urlencode({"user_name": name, "password": _PASSWORD})
        headers = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
        self._connection.request("POST", "/console/sign-in", form, headers)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 303, answer.status
        self._cookie = "; ".join(one.partition(";")[0] for one in answer.headers.get_all("set-cookie") or ())

    def slowest(self, path: str) -> float:
        """Seconds of the slowest of some answers, the first of which is not counted."""
        return max([self._seconds(path)[0] for _ in range(ROUNDS + 1)][1:])

    def deep(self, path: str) -> float:
        """Seconds of the twentieth page of a list."""
        taken = 0.0
        for _ in range(20):
            taken, page = self._seconds(path)
            following = re.search(r'rel="next" href="([^"]+)"', page)
            if following is None:
                break
            path = path.partition("?")[0] + following[1].replace("&amp;", "&")
        return taken

    def _seconds(self, path: str) -> tuple[float, str]:
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"cookie": self._cookie})
        answer = self._connection.getresponse()
        page = answer.read().decode()
        assert answer.status == 200, (path, answer.status)
        return time.perf_counter() - began, page
