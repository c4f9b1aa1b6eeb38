"""A template is checked in whatever way the ORM saves it; a refusal leaves the transaction usable."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.orm import Session

from messaging.db.active import with_disabled
from messaging.errors import TemplateRejected
from messaging.mail.models import MAIL_TEMPLATE, MailTemplate
from messaging.tenancy import use_multi_tenancy


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    use_multi_tenancy(False)
    with Session(engine) as opened:
        yield opened


def template(**columns: Any) -> MailTemplate:
    return MailTemplate(**{"code": "welcome", "name": "Welcome", **columns})


def test_a_new_template_that_does_not_compile_is_refused_and_the_transaction_goes_on(session: Session) -> None:
    session.add(template())
    session.flush()
    broken = template(code="broken", body_html="<p>\n{{ name }</p>")
    session.add(broken)
    with pytest.raises(TemplateRejected) as refused:
        session.flush()
    assert (refused.value.field, refused.value.line) == ("body_html", 2)
    session.expunge(broken)
    session.commit()
    assert session.scalars(select(MailTemplate.code)).all() == ["welcome"]


@pytest.mark.parametrize("missing", ["code", "name"])
def test_a_new_template_without_its_names_is_refused(session: Session, missing: str) -> None:
    session.add(template(**{missing: None}))
    with pytest.raises(TemplateRejected, match=f"{missing} is None: is required"):
        session.flush()


def test_columns_that_are_not_set_are_the_databases_defaults(session: Session) -> None:
    session.add(template())
    session.commit()
    row = session.scalars(select(MailTemplate)).one()
    assert (row.body_mode, row.active, row.strict, row.inline_css) == ("HTML_WITH_DERIVED_PLAIN", True, False, False)


def test_of_a_template_that_is_changed_only_the_change_is_looked_at(session: Session) -> None:
    session.execute(MAIL_TEMPLATE.insert().values(code="old", name="Old", body_html="{{ broken", tenant_id=0))
    row = session.scalars(select(MailTemplate)).one()
    row.active = False
    session.commit()
    row.body_html = "{% endfor %}"
    with pytest.raises(TemplateRejected, match=r"body_html, line 1"):
        session.commit()
    row.body_html = "{{ whole }}"
    session.commit()


@pytest.mark.parametrize(
    "statement",
    [
        insert(MailTemplate).values(code="b", name="B", subject="{{ b"),
        insert(MailTemplate).values([{"code": "b", "name": "B", "subject": "{{ b"}]),
        update(MailTemplate).values(subject="{{ b"),
        update(MailTemplate).where(MailTemplate.code == "welcome").values({MailTemplate.subject: "{{ b"}),
    ],
)
def test_a_statement_that_holds_a_broken_template_is_refused(session: Session, statement: Any) -> None:
    session.add(template())
    session.commit()
    with pytest.raises(TemplateRejected, match=r"subject, line 1"):
        session.execute(statement)
    with pytest.raises(TemplateRejected, match=r"subject, line 1"):
        session.execute(insert(MailTemplate), [{"code": "b", "name": "B", "subject": "{{ b"}])
    assert session.scalar(select(func.count()).select_from(MailTemplate)) == 1


def test_a_statement_that_fits_is_executed(session: Session) -> None:
    session.execute(insert(MailTemplate), [{"code": "b", "name": "B", "subject": "{{ b }}"}])
    session.execute(update(MailTemplate).values(active=False, description=func.upper("x")))
    session.commit()
    row = session.scalars(with_disabled(select(MailTemplate))).one()
    assert (row.subject, row.description, row.active) == ("{{ b }}", "X", False)
