"""What a mail request's arguments may be, and that what is wrong with them is told without them."""

from typing import Any

import pytest

from messaging.mail.mail_request import MailRequest, RequestRefused, read_request
from messaging.requests import MessageScope

TO, CODE = ["ada@example.com"], "welcome"


def read(**given: Any) -> MailRequest:
    arguments = {"to": TO, "template_code": CODE, "variables": None, "scope": None, "tenant_id": None, **given}
    return read_request(**arguments, task_id="t1")


def test_a_request_becomes_a_mail_whose_key_is_made_of_the_tasks_id() -> None:
    request = read(variables={"b": 1, "a": [2]}, scope="PLATFORM", tenant_id=7)
    assert request.mail is not None
    assert (request.mail.to, request.mail.template_code, request.mail.scope) == (TO, CODE, "PLATFORM")
    assert list(request.mail.template_variables.items()) == [("b", 1), ("a", [2])]
    assert request.mail.idempotency_key == "mail-request:t1"
    assert (request.tenant_id, request.task_id) == (7, "t1")


def test_what_is_left_out_is_what_send_mail_takes_it_for() -> None:
    request = read()
    assert request.mail is not None
    assert (request.mail.template_variables, request.mail.scope) == ({}, MessageScope.TENANT)
    assert request.tenant_id is None


def test_one_address_may_stand_alone() -> None:
    request = read(to="Ada <ada@example.com>")
    assert request.mail is not None
    assert request.mail.to == ["Ada <ada@example.com>"]


@pytest.mark.parametrize("given", [{"to": None}, {"to": []}, {"to": " "}, {"template_code": None}])
@pytest.mark.parametrize("blank", ["", " \t"])
def test_without_recipient_or_code_there_is_no_mail(given: dict[str, Any], blank: str) -> None:  # operate.md O62
    assert read(**given).mail is None
    assert read(template_code=blank).mail is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("to", {"a": 1}),
        ("to", 5),
        ("to", True),
        ("template_code", 5),
        ("template_code", ["welcome"]),
        ("variables", ["secret"]),
        ("variables", "secret"),
        ("scope", 1),
        ("scope", {"secret": 1}),
        ("tenant_id", "7"),
        ("tenant_id", 7.0),
        ("tenant_id", True),
        ("tenant_id", -2),
        ("tenant_id", 2**63),
    ],
)
def test_an_argument_of_another_type_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(RequestRefused, match=f"^{name} is ") as refused:
        read(**{name: value})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("tenant_id", [-1, 0, 2**63 - 1])
def test_a_tenant_is_a_number_a_column_holds(tenant_id: int) -> None:
    assert read(tenant_id=tenant_id).tenant_id == tenant_id


def test_a_request_does_not_show_what_it_holds() -> None:
    assert "ada@example.com" not in repr(read())
