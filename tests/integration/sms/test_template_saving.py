"""An SMS template is checked in whatever way the ORM saves it; a refusal leaves the transaction usable."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select, update
from sqlalchemy.orm import Session

from messaging.errors import TemplateRejected
from messaging.sms.models import SMS_TEMPLATE, SmsTemplate
from messaging.tenancy import use_multi_tenancy


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    use_multi_tenancy(False)
    with Session(engine) as opened:
        yield opened


def template(**columns: Any) -> SmsTemplate:
    return SmsTemplate(**{"code": "otp", "name": "Code", "content": "Your code is {{ code }}", **columns})


def test_a_template_that_does_not_compile_is_refused_and_the_transaction_goes_on(session: Session) -> None:
    session.add(template())
    session.flush()
    broken = template(code="broken", content="Your code\nis {{ code }")
    session.add(broken)
    with pytest.raises(TemplateRejected) as refused:
        session.flush()
    assert (refused.value.field, refused.value.line) == ("content", 2)
    session.expunge(broken)
    session.commit()
    assert session.scalars(select(SmsTemplate.code)).all() == ["otp"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_segments", 0), ("max_segments", -1), ("max_segments", 40_000), ("code", " "), ("name", None)],
)
def test_what_no_message_could_go_out_by_is_refused(session: Session, field: str, value: Any) -> None:
    session.add(template(**{field: value}))
    with pytest.raises(TemplateRejected) as refused:
        session.flush()
    assert (refused.value.field, refused.value.value) == (field, value)


def test_of_a_template_that_is_changed_only_the_change_is_looked_at(session: Session) -> None:
    session.execute(SMS_TEMPLATE.insert().values(code="old", name="Old", content="{{ broken", tenant_id=0))
    row = session.scalars(select(SmsTemplate)).one()
    row.active = False
    session.commit()
    row.content = "{% endfor %}"
    with pytest.raises(TemplateRejected, match=r"content, line 1"):
        session.flush()


def test_a_statement_is_refused_for_what_it_holds(session: Session) -> None:
    session.add(template())
    session.commit()
    with pytest.raises(TemplateRejected):
        session.execute(insert(SmsTemplate).values(code="a", name="A", content="{{"))
    with pytest.raises(TemplateRejected):
        session.execute(update(SmsTemplate).values(max_segments=0))
    session.execute(update(SmsTemplate).values(max_segments=2))
    session.commit()
