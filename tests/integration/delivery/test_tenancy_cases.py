"""Cases of others' systems in which one tenant saw, or was given, what was another's: tenant-02 and tenant-03."""

import email
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from messaging import api, tenancy
from messaging.errors import RecordNotFound, TenantContextMissing
from messaging.mail.models import MailSendRecord, MailTemplate
from messaging.records import page
from messaging.tenancy import tenant
from tests.integration.delivery.desk import Desk

SEVEN, EIGHT = 7, 8


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Iterator[Desk]:
    made = make_desk(multi_tenancy=True)
    api.configure(made.settings, engine=made.engine)
    made.add_server(tenant_id=tenancy.PLATFORM_TENANT_ID)
    yield made
    tenancy.use_multi_tenancy(False)


def accept_in_each(desk: Desk) -> dict[int, int]:
    """A template `welcome` of each tenant with a subject of its own, and a mail by it under the same key."""
    ids = {}
    for tenant_id, subject in ((SEVEN, "A"), (EIGHT, "B")):
        with tenant(tenant_id), Session(desk.engine) as session:
            session.add(MailTemplate(code="welcome", name="x", subject=subject, body_text="x", body_mode="PLAIN"))
            ids[tenant_id] = api.send_mail(
                to=["a@example.com"], template_code="welcome", idempotency_key="order-1", session=session
            )
            session.commit()
    return ids


def test_tenant_02_no_tenant_in_the_context_is_an_error_and_never_all_of_them(desk: Desk) -> None:
    ids = accept_in_each(desk)
    code = select(MailTemplate.subject).where(MailTemplate.code == "welcome")
    calls: list[Callable[[Session], Any]] = [
        lambda s: page(s, limit=10),
        lambda s: s.scalars(code).all(),
        lambda s: s.scalar(select(func.count()).select_from(MailSendRecord)),
        lambda s: api.status(ids[SEVEN], session=s),
        lambda s: api.quota_usage(session=s),
    ]
    with Session(desk.engine) as session:
        for call in calls:
            with pytest.raises(TenantContextMissing):
                call(session)
        tenancy.use_multi_tenancy(False)
        for call in calls:
            call(session)


def test_tenant_03_the_same_code_and_key_are_each_tenants_own(desk: Desk) -> None:
    ids = accept_in_each(desk)
    assert ids[SEVEN] != ids[EIGHT]
    assert desk.deliver(*ids.values()) == {"sent": 2}
    subjects = sorted(email.message_from_bytes(message.content)["Subject"] for message in desk.server.messages)
    assert subjects == ["A", "B"]
    for tenant_id, other, subject in ((SEVEN, EIGHT, "A"), (EIGHT, SEVEN, "B")):
        with tenant(tenant_id):
            assert api.status(ids[tenant_id]).subject == subject
            with pytest.raises(RecordNotFound):
                api.status(ids[other])
