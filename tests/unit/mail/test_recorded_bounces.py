"""The recorded reports of Postfix and Exim name their mail by the envelope sender it was given (send.md section 8)."""

from email import message_from_bytes
from email.policy import default

import pytest

from messaging.db.encryption import use_keys
from messaging.mail import verp
from tests.far_end.record_bounces import CASES, FOLDER, KEY, Case


@pytest.fixture(autouse=True)
def _keys() -> None:
    use_keys((KEY,))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_address_a_report_came_to_says_which_record_it_is_about(case: Case) -> None:  # receive.md R68
    report = message_from_bytes((FOLDER / f"{case.name}.eml").read_bytes(), policy=default)
    for name in ("To", "Delivered-To"):
        assert verp.read(report[name]) == case.record_id
    assert report["Return-Path"] == "<>"
    assert report.get_content_type() == "multipart/report"
    assert f"<{case.record_id}." in report.as_string()


def test_every_recorded_report_is_listed() -> None:
    assert {path.stem for path in FOLDER.glob("*.eml")} == {case.name for case in CASES}
