"""Every page of the console as a browser without a script sees it."""

from sqlalchemy import Engine

from messaging.access.roles import Role
from tests.integration.web.console import stories
from tests.integration.web.console.conftest import Browse

STATUSES = ("PENDING", "SENDING", "SENT", "RETRY", "FAILED", "DEAD_LETTER")


def test_lists_show_records_of_every_status_with_a_retry_where_there_may_be_one(browse: Browse, engine: Engine) -> None:
    browser = browse()
    ids = {status: stories.mail(engine, status=status, said="550 no") for status in STATUSES}
    page = browser.get("/console/mail")
    assert page.status_code == 200
    for status, record_id in ids.items():
        assert f"/console/mail/{record_id}?back=-" in page.text
        assert (f"/console/mail/{record_id}/retry" in page.text) == (status in ("RETRY", "FAILED", "DEAD_LETTER"))
    for path in ids.values():
        assert browser.get(f"/console/mail/{path}").status_code == 200
    assert browser.get("/console/sms").status_code == 200
    assert browser.get("/console/audit").status_code == 200
    assert browse(Role.PLATFORM).get("/console/dead-letters").status_code == 200
