"""What a template gives a mail (send.md 4.3, 5.2, 5.3; test points B1 to B17)."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest

from messaging.category import MarkerCode
from messaging.errors import PreparationError
from messaging.mail.templates import RenderedMail, find_template, render_template
from messaging.requests import BodyMode
from messaging.templates.render import Renderer
from messaging.tenancy import PLATFORM_TENANT_ID, use_multi_tenancy

RENDERER = Renderer(max_chars=5000, ticker=time.monotonic)


def template(**columns: Any) -> dict[str, Any]:
    return {
        "id": 3,
        "tenant_id": 0,
        "code": "welcome",
        "active": True,
        "subject": None,
        "body_html": None,
        "body_text": None,
        "body_mode": "HTML",
        "strict": False,
        "inline_css": False,
        **columns,
    }


def record(variables: Mapping[str, Any] | None = None, **columns: Any) -> dict[str, Any]:
    return {
        "id": 42,
        "tenant_id": 0,
        "scope": "TENANT",
        "template_id": None,
        "template_code": "welcome",
        "template_variables": variables,
        "subject": None,
        "body_mode": None,
        "body_html": None,
        "body_text": None,
        **columns,
    }


def rendered(row: dict[str, Any], variables: Mapping[str, Any] | None = None, **columns: Any) -> RenderedMail:
    return render_template(row, record(variables, **columns), RENDERER, max_body_chars=1000)


def refused(row: dict[str, Any], variables: Mapping[str, Any] | None = None, **columns: Any) -> PreparationError:
    with pytest.raises(PreparationError) as caught:
        rendered(row, variables, **columns)
    return caught.value


@pytest.mark.parametrize("mode", [None, "HTML"])
def test_a_template_of_html_is_sent_as_html_alone(mode: str | None) -> None:
    row = template(body_mode=mode, subject="Hi", body_html="<p>{{ n }}</p>", body_text="never {{ read }}")
    assert rendered(row, {"n": 1}) == RenderedMail("Hi", BodyMode.HTML, "<p>1</p>", None, ())


def test_a_template_of_plain_text_is_sent_as_text_alone() -> None:
    row = template(body_mode="PLAIN", body_html="never {{ read }}", body_text="Hi {{ n }}")
    assert rendered(row, {"n": "x"}) == RenderedMail(None, BodyMode.PLAIN, None, "Hi x", ())


def test_plain_text_is_derived_where_the_mode_says_so() -> None:
    row = template(body_mode="HTML_WITH_DERIVED_PLAIN", body_html="<p>Welcome <b>back</b></p>")  # B2
    assert rendered(row).body_text == "Welcome back"
    assert rendered(row).body_mode is BodyMode.HTML_WITH_DERIVED_PLAIN


def test_authored_text_is_rendered_beside_the_html() -> None:
    row = template(body_mode="HTML_WITH_AUTHORED_PLAIN", body_html="<p>{{ n }}</p>", body_text="is {{ n }}")
    assert rendered(row, {"n": "<"}) == RenderedMail(None, BodyMode.HTML_WITH_AUTHORED_PLAIN, "<p>&lt;</p>", "is <", ())


@pytest.mark.parametrize("text", [None, "", " \n", "{{ missing }}"])
def test_blank_authored_text_is_derived_marked_as_such_and_warned_of(
    text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    row = template(body_mode="HTML_WITH_AUTHORED_PLAIN", body_html="<p>Hello</p>", body_text=text)
    with caplog.at_level(logging.WARNING):  # B3
        mail = rendered(row)
    assert (mail.body_mode, mail.body_text) == (BodyMode.HTML_WITH_DERIVED_PLAIN, "Hello")
    assert [(entry.levelname, entry.__dict__["record_id"]) for entry in caplog.records] == [("WARNING", 42)]


@pytest.mark.parametrize("mode", ["HTML_WITH_DERIVED_PLAIN", "HTML_WITH_AUTHORED_PLAIN"])
def test_html_of_images_alone_is_sent_as_html(mode: str) -> None:
    mail = rendered(template(body_mode=mode, body_html="<p><img src='cid:a'></p>"))
    assert (mail.body_mode, mail.body_text) == (BodyMode.HTML, None)


def test_the_callers_subject_goes_with_the_templates_body() -> None:
    row = template(subject="{{ never.asked }}", body_html="<p>x</p>")  # B10
    assert rendered(row, subject="Mine") == RenderedMail("Mine", BodyMode.HTML, "<p>x</p>", None, ())
    assert rendered(template(subject="Its", body_html="x"), subject="  ").subject == "Its"


def test_a_body_of_the_caller_replaces_all_bodies_of_the_template() -> None:
    row = template(subject="Its", body_html="<p>{{ never.asked }}</p>", body_mode="HTML_WITH_DERIVED_PLAIN")  # B11
    assert rendered(row, body_text="mine") == RenderedMail("Its", BodyMode.PLAIN, None, "mine", ())
    assert rendered(row, body_html="<p>a</p>", body_mode="HTML_WITH_DERIVED_PLAIN") == RenderedMail(
        "Its", BodyMode.HTML_WITH_DERIVED_PLAIN, "<p>a</p>", "a", ()
    )


def test_values_are_escaped_in_html_and_nowhere_else() -> None:
    row = template(
        subject="{{ x }}", body_html="{{ x }}|{{ x | safe }}", body_text="{{ x }}", body_mode="HTML_WITH_AUTHORED_PLAIN"
    )
    x = "<b>&'\""  # B12, tmpl-02, tmpl-03
    mail = rendered(row, {"x": x})
    assert mail.body_html == f"&lt;b&gt;&amp;&#39;&#34;|{x}"
    assert (mail.subject, mail.body_text) == (x, x)


def test_what_was_missing_is_told_and_fails_a_strict_template() -> None:
    row = template(subject="{{ a }}", body_html="<a href='{{ user.name }}'>{{ a }}</a>", body_text="{{ unused }}")
    assert rendered(row).missing == ("a", "user.name")  # B13, tmpl-04
    error = refused(row | {"strict": True}, {"a": "secret"})
    assert error.marker is MarkerCode.RENDER_FAILED
    assert str(error) == "mail template 3 (welcome): it is strict and misses user.name"
    assert rendered(row | {"strict": True}, {"a": "x", "user": {"name": "y"}}).missing == ()


def test_a_key_is_found_before_a_method_and_a_subject_is_one_line() -> None:
    row = template(
        subject="{% if n > 1 %}{{ n }}\nitems{% else %}1 item{% endif %}", body_html="{{ order.items }}"
    )  # B14, B15
    mail = rendered(row, {"n": 2, "order": {"items": [1]}})
    assert (mail.subject, mail.body_html) == ("2 items", "[1]")
    assert rendered(row, {"n": 1, "order": {"items": [1]}}).subject == "1 item"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for c in ''.__class__.__mro__[1].__subclasses__() %}{% if c.__name__=='Popen' %}"
        "{{ c(['id'],stdout=-1).communicate() }}{% endif %}{% endfor %}",  # tmpl-01
        "{{ self._TemplateReference__context.environment }}",
    ],
)
def test_a_template_reaches_nothing_but_its_variables(source: str) -> None:
    error = refused(template(body_html=source))  # B16
    assert error.marker in (MarkerCode.RENDER_FAILED, MarkerCode.RENDER_EMPTY)
    assert not error.category.is_retryable


def test_a_failing_template_is_told_with_column_line_and_variable_and_no_value() -> None:
    error = refused(template(body_html="<p>\n{{ price / 'a' }}</p>"), {"price": "secret"})
    assert error.marker is MarkerCode.RENDER_FAILED
    assert str(error).startswith("mail template 3 (welcome): body_html, line 2: ")
    assert "secret" not in str(error)
    assert error.__context__ is None or "secret" not in repr(error.__context__)


@pytest.mark.parametrize(
    "row",
    [
        template(body_html=" \n{{ x }}\t"),
        template(body_html=None),
        template(body_mode="PLAIN", body_text="{# nothing #}", body_html="<p>x</p>"),
        template(body_mode="HTML_WITH_AUTHORED_PLAIN", body_html="", body_text="x"),
    ],
)
def test_a_body_that_the_mode_needs_and_is_blank_is_refused(row: dict[str, Any]) -> None:
    assert refused(row).marker is MarkerCode.RENDER_EMPTY  # B17


def test_a_body_over_the_limit_is_refused_whatever_made_it_long() -> None:
    rows = [
        template(body_html="{{ x * 1001 }}"),
        template(body_html="{% for i in range(9000) %}x{% endfor %}"),
        template(body_html="<style>p{color:red}</style>" + "<p>x</p>" * 100, inline_css=True),
    ]
    for row in rows:
        assert refused(row, {"x": "y"}).marker is MarkerCode.BODY_TOO_LARGE


def test_a_subject_over_its_limit_is_refused() -> None:
    assert rendered(template(subject="{{ x * 500 }}", body_html="b"), {"x": "y"}).subject == "y" * 500
    for source in ("{{ x * 501 }}", "{{ x * 5001 }}"):
        error = refused(template(subject=source, body_html="b"), {"x": "y"})
        assert error.marker is MarkerCode.SUBJECT_TOO_LONG
        assert not error.category.is_retryable


def test_css_is_inlined_after_rendering_and_only_in_the_templates_html() -> None:
    html = "<html><head><style>p{color:{{ c }}}</style></head><body><p>x</p></body></html>"
    row = template(body_html=html, inline_css=True, body_mode="HTML_WITH_DERIVED_PLAIN")
    mail = rendered(row, {"c": "red"})
    assert mail.body_html == html.replace("{{ c }}", "red").replace("<p>", '<p style="color: red;">')
    assert mail.body_text == "x"
    own = "<style>p{color:red}</style><p>x"
    assert rendered(row, body_html=own).body_html == own


def test_html_that_cannot_be_inlined_is_refused() -> None:
    error = refused(template(body_html="<style>p{}</style>" + "<b>" * 200, inline_css=True))
    assert error.marker is MarkerCode.RENDER_FAILED
    assert "body_html: its elements nest" in str(error)


class Rows:
    """Templates as a look-up answers them."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows = rows
        self.codes_asked: list[tuple[int, str]] = []

    def by_id(self, template_id: int, /) -> dict[str, Any] | None:
        return next((row for row in self.rows if row["id"] == template_id), None)

    def by_code(self, tenant_id: int, code: str, /) -> dict[str, Any] | None:
        self.codes_asked.append((tenant_id, code))
        matches = (r for r in self.rows if (r["tenant_id"], r["code"], r["active"]) == (tenant_id, code, True))
        return next(matches, None)


@pytest.fixture
def _tenants() -> Any:
    use_multi_tenancy(True)
    yield
    use_multi_tenancy(False)


ROWS = Rows(
    template(id=1, tenant_id=7, code="welcome"),
    template(id=2, tenant_id=7, code="off", active=False),
    template(id=3, tenant_id=8, code="welcome"),
    template(id=4, tenant_id=PLATFORM_TENANT_ID, code="welcome"),
    template(id=5, tenant_id=PLATFORM_TENANT_ID, code="billing"),
)


@pytest.mark.usefixtures("_tenants")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"template_code": "welcome"}, 1),
        ({"template_code": "welcome", "tenant_id": 8}, 3),  # tenant-03
        ({"template_code": "welcome", "scope": "PLATFORM"}, 4),  # B8, O4
        ({"template_code": "off", "template_id": 2}, 2),  # B5, O14
        ({"template_code": "welcome", "template_id": 2}, 2),  # B9
        ({"template_id": 5, "scope": "PLATFORM"}, 5),
        ({"template_code": "off"}, None),  # B6, O14
        ({"template_code": "billing"}, None),  # B7, O3
        ({"template_code": "off", "scope": "PLATFORM"}, None),
        ({"template_id": 3}, None),
        ({"template_id": 4}, None),
        ({"template_id": 1, "scope": "PLATFORM"}, None),
        ({"template_id": 9, "template_code": "welcome"}, None),
        ({"template_code": None}, None),
    ],
)
def test_a_template_is_found_in_its_tier_and_in_no_other(asked: dict[str, Any], found: int | None) -> None:
    of = record(tenant_id=7) | asked
    if found is not None:
        assert find_template(of, ROWS)["id"] == found
        return
    with pytest.raises(PreparationError) as error:
        find_template(of, ROWS)
    assert error.value.marker is MarkerCode.TEMPLATE_NOT_FOUND
    assert str(of["template_id"] or of["template_code"]) in str(error.value)


@pytest.mark.usefixtures("_tenants")
def test_with_an_id_no_code_is_looked_up() -> None:
    rows = Rows(template(id=1, tenant_id=7))
    find_template(record(tenant_id=7, template_id=1), rows)  # B9
    assert rows.codes_asked == []


def test_without_multi_tenancy_the_scope_is_not_looked_at() -> None:
    use_multi_tenancy(False)
    rows = Rows(template(id=1, tenant_id=0))  # O11
    for scope in ("TENANT", "PLATFORM"):
        assert find_template(record(scope=scope), rows)["id"] == 1
        assert find_template(record(scope=scope, template_id=1), rows)["id"] == 1
