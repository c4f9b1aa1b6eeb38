"""Preview, variables and lists of templates (send.md 5.4, 5.5, section 16 "Tooling"; operate.md O15, O54)."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

import messaging
from messaging import tenancy
from messaging.errors import MessageRejected, RecordNotFound, TenantContextMissing
from messaging.mail.models import MAIL_TEMPLATE, MailTemplate
from messaging.settings import Settings
from messaging.templates.variables import TemplateVariable, VariableKind
from messaging.tenancy import PLATFORM_TENANT_ID, all_tenants, tenant
from tests.conftest import MakeSettings


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings(multi_tenancy=True)


@pytest.fixture
def session(settings: Settings, engine: Engine) -> Iterator[Session]:
    messaging.configure(settings, engine=engine)
    with Session(engine) as opened:
        yield opened
    tenancy.use_multi_tenancy(False)


def add(session: Session, tenant_id: int, **columns: Any) -> int:
    with tenant(tenant_id):
        row = MailTemplate(**{"code": "welcome", "name": "Welcome", **columns})
        session.add(row)
        session.flush()
        return row.id


def test_a_preview_renders_all_columns_and_tells_what_is_missing(session: Session) -> None:
    template_id = add(session, 7, subject="Hi {{ name }}", body_html="<p>{{ name }} {{ user.mail }}</p>", strict=True)
    with tenant(7):
        preview = messaging.preview_mail_template(template_id, variables={"name": "<b>"}, session=session)
        assert preview.rendered_subject == "Hi <b>"
        assert preview.rendered_body_html == "<p>&lt;b&gt; </p>"
        assert preview.rendered_body_text is None
        assert preview.missing_variables == ["user.mail"]  # tmpl-04
        nothing = messaging.preview_mail_template(code="welcome", session=session)
        assert nothing.missing_variables == ["name", "user.mail"]


def test_the_id_wins_and_one_of_both_is_needed(session: Session) -> None:
    one, two = add(session, 7, subject="one {{ a }}"), add(session, 7, code="two", subject="two {{ b }}")
    with tenant(7):
        assert messaging.preview_mail_template(one, "two", session=session).rendered_subject == "one"
        assert messaging.preview_mail_template(two, "nosuch", session=session).rendered_subject == "two"
        variables = messaging.list_template_variables(two, "welcome", session=session)  # O54
        assert variables == [TemplateVariable("b", VariableKind.VARIABLE)]
        for code in (None, "", " ", "a\0", "\udcff"):
            with pytest.raises(MessageRejected, match="code is missing, and so is id"):
                messaging.preview_mail_template(code=code, session=session)
            with pytest.raises(MessageRejected):  # O54
                messaging.list_template_variables(code=code, session=session)


def test_a_disabled_template_is_previewed_and_read_but_not_listed(session: Session) -> None:
    template_id = add(session, 7, subject="{{ a }}", active=False)
    with tenant(7):  # O12, O15
        for named in ({"id": template_id}, {"code": "welcome"}):
            assert messaging.preview_mail_template(**named, variables={"a": 1}, session=session).rendered_subject == "1"
            assert [entry.name for entry in messaging.list_template_variables(**named, session=session)] == ["a"]
        assert messaging.list_mail_templates(session=session) == []
        (line,) = messaging.list_mail_templates(active="all", session=session)
        assert (line.id, line.code, line.active) == (template_id, "welcome", False)


def test_a_template_is_found_in_the_callers_own_tier_only(session: Session) -> None:
    own, platforms = add(session, 7, subject="own"), add(session, PLATFORM_TENANT_ID, subject="the platform's")
    with tenant(7):
        assert messaging.preview_mail_template(code="welcome", session=session).rendered_subject == "own"
        with pytest.raises(RecordNotFound):
            messaging.preview_mail_template(platforms, session=session)
    with tenant(8), pytest.raises(RecordNotFound):
        messaging.preview_mail_template(code="welcome", session=session)
    with tenant(PLATFORM_TENANT_ID):
        assert messaging.preview_mail_template(code="welcome", session=session).rendered_subject == "the platform's"
    with all_tenants():
        assert messaging.preview_mail_template(own, session=session).rendered_subject == "own"
        with pytest.raises(MessageRejected, match="say which tenant"):
            messaging.preview_mail_template(code="welcome", session=session)
    with pytest.raises(TenantContextMissing):  # tenant-02
        messaging.preview_mail_template(code="welcome", session=session)


def test_a_preview_is_what_a_send_renders(session: Session) -> None:
    html = "<style>p{color:red}</style><p>{{ pair }}</p>"
    template_id = add(session, 7, body_html=html, inline_css=True)
    with tenant(7):
        preview = messaging.preview_mail_template(template_id, variables={"pair": (1, 2)}, session=session)
        assert '<p style="color: red;">[1, 2]</p>' in (preview.rendered_body_html or "")
        with pytest.raises(MessageRejected, match="variables"):
            messaging.preview_mail_template(template_id, variables={"pair": object()}, session=session)


def test_a_template_that_fails_says_where(session: Session) -> None:
    template_id = add(session, 7, body_html="<p>\n{{ price / 'a' }}</p>")
    with tenant(7), pytest.raises(messaging.RenderError, match=r"body_html, line 2: "):
        messaging.preview_mail_template(template_id, variables={"price": 1}, session=session)
    session.execute(MAIL_TEMPLATE.update().values(body_html="{{ broken"))
    session.expire_all()
    with tenant(7), pytest.raises(messaging.RenderError, match=r"body_html, line 1: "):
        messaging.preview_mail_template(template_id, session=session)


@pytest.mark.parametrize("template_id", [0, -1, True, "1", 2**63])
def test_what_is_no_id_is_refused_before_the_database_sees_it(session: Session, template_id: Any) -> None:
    with tenant(7), pytest.raises(MessageRejected, match="is not an id"):
        messaging.preview_mail_template(template_id, session=session)
