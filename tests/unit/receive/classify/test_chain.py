"""The chain: the order of rules, what fails in it, and what applications add to it."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from messaging.receive.classification import BounceRecipient, Classification
from messaging.receive.classify.chain import RULES, Chain, Registry, classify
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import BounceKind, MailType, TruncationReason
from tests.unit.receive.classify.mails import mail

DSN = (
    "Subject: Undeliverable\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=b",
    "--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n"
    "Final-Recipient: rfc822; kim@customer.example\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n--b--\r\n",
)


@dataclass
class Says:
    """A rule that says the same of every mail."""

    type: MailType | None
    order: int = 25

    def match(self, message: ParsedMail) -> Classification | None:
        return None if self.type is None else Classification(self.type)


@dataclass
class Raises:
    order: int = 1

    def match(self, message: ParsedMail) -> Classification | None:
        raise RuntimeError("secret words of a mail")

    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        raise RuntimeError("secret words of a mail")


class Flags:
    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        return classification.with_flags(spam=True)


def test_ours_run_in_the_documented_order() -> None:
    rules = [(type(rule).__name__, rule.order) for rule in Registry().chain.rules]
    assert rules == [
        ("ReadReceipt", 10),
        ("FeedbackReport", 12),
        ("CalendarInvite", 15),
        ("Dsn", 20),
        ("MailerDaemon", 30),
        ("AutoReply", 40),
        ("Keyword", 99),
    ]
    assert len(rules) == len(RULES)


# receive.md R54
def test_a_rule_that_raises_is_no_match(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "messaging.receive.classify.chain"):
        assert Chain([Raises(1), Raises(2)], []).classify(mail()).type is MailType.UNKNOWN
        assert Chain([Raises(), Says(MailType.BOUNCE)], []).classify(mail()).type is MailType.BOUNCE
        assert Chain([Raises(), Says(None)], []).classify(mail()).type is MailType.UNKNOWN
        assert Chain([Says(None)], []).classify(mail()).type is MailType.NORMAL
    assert [record.message for record in caplog.records] == ["classification rule failed"] * 4
    assert "secret" not in caplog.text


def test_a_rule_that_answers_nonsense_is_no_match() -> None:
    nonsense = Says(MailType.BOUNCE)
    nonsense.match = lambda message: "BOUNCE"  # type: ignore[method-assign, assignment, return-value]
    assert Chain([nonsense], []).classify(mail()).type is MailType.UNKNOWN


@pytest.mark.parametrize(
    "answer",
    [
        Classification("INVOICE"),  # type: ignore[arg-type]
        Classification(MailType.NORMAL, flags=None),  # type: ignore[arg-type]
        Classification(MailType.NORMAL, detail=5),  # type: ignore[arg-type]
        Classification(MailType.BOUNCE, reference_ids=(None,)),  # type: ignore[arg-type]
        Classification(MailType.BOUNCE, reference_ids="<one@example.org>"),  # type: ignore[arg-type]
        Classification(MailType.BOUNCE, verp_record_id=2**63),
        Classification(MailType.BOUNCE, verp_record_id="7"),  # type: ignore[arg-type]
        Classification(MailType.BOUNCE, recipients=("kim@example.org",)),  # type: ignore[arg-type]
        Classification(MailType.BOUNCE, recipients=(BounceRecipient("LOST"),)),  # type: ignore[arg-type]
        Classification(MailType.BOUNCE, recipients=(BounceRecipient(BounceKind.HARD, status=5),)),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_cannot_be_stored_is_no_match(answer: Classification) -> None:
    class Careless:
        order = 25

        def match(self, message: ParsedMail) -> Classification:
            return answer

    class CarelessDetector:
        def apply(self, message: ParsedMail, classification: Classification) -> Classification:
            return answer

    assert Chain([Careless()], []).classify(mail()) == Classification(MailType.UNKNOWN)
    assert Chain([Says(MailType.AUTO_REPLY)], [CarelessDetector()]).classify(mail()).type is MailType.AUTO_REPLY


def test_a_flag_detector_that_raises_costs_its_own_flag_only() -> None:
    found = Chain([Says(MailType.AUTO_REPLY)], [Raises(), Flags()]).classify(mail())
    assert found.type is MailType.AUTO_REPLY
    assert found.flags.spam


def test_detectors_change_nothing_the_second_time() -> None:
    message = mail("List-Id: <a.example>", "Precedence: bulk", "X-Spam-Flag: YES")
    once = classify(message)
    again = once
    for detector in Registry().chain.detectors:
        again = detector.apply(message, again)
    assert again == once


# receive.md R65
def test_a_rule_registered_at_25_runs_after_dsn_and_before_mailer_daemon() -> None:
    registry = Registry()
    registry.register_rule(Says(MailType.AUTO_REPLY, order=25))
    dsn = mail(DSN[0], body=DSN[1], sender="mailer-daemon@mx.example")
    assert registry.classify(dsn).type is MailType.BOUNCE
    text = mail("Subject: failure", body="550 5.1.1 no such user", sender="mailer-daemon@mx.example")
    assert classify(text).type is MailType.BOUNCE
    assert registry.classify(text).type is MailType.AUTO_REPLY


def test_of_equal_orders_ours_comes_first_then_what_was_registered_earlier() -> None:
    registry = Registry()
    early, late, ours = Says(MailType.NORMAL, order=20), Says(MailType.NORMAL, order=20), "Dsn"
    registry.register_rule(early)
    registry.register_rule(late)
    of_20 = [rule for rule in registry.chain.rules if rule.order == 20]
    assert [type(of_20[0]).__name__, of_20[1] is early, of_20[2] is late] == [ours, True, True]


def test_a_rule_registered_later_counts_from_then_on() -> None:
    registry = Registry()
    assert registry.classify(mail()).type is MailType.NORMAL
    registry.register_rule(Says(MailType.AUTO_REPLY))
    registry.register_flag_detector(Flags())
    found = registry.classify(mail())
    assert (found.type, found.flags.spam) == (MailType.AUTO_REPLY, True)


@pytest.mark.parametrize("what", [object(), Flags(), Says])
def test_what_is_no_rule_is_refused(what: object) -> None:
    with pytest.raises(TypeError, match="is no rule"):
        Registry().register_rule(what)  # type: ignore[arg-type]


def test_what_is_no_detector_is_refused() -> None:
    with pytest.raises(TypeError, match="is no flag detector"):
        Registry().register_flag_detector(Says(None))  # type: ignore[arg-type]


def test_rules_are_registered_from_many_threads_while_mails_are_classified() -> None:
    registry, message = Registry(), mail()
    results: list[Classification] = []

    def work() -> None:
        for _ in range(20):
            registry.register_rule(Says(None))
            results.append(registry.classify(message))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.chain.rules) == len(RULES) + 160
    assert {found.type for found in results} == {MailType.NORMAL}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a package of an application's own."""

    def install(module: str, entry_points: str) -> None:
        (tmp_path / "acme_rules.py").write_text(module)
        info = tmp_path / "acme_rules-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1\n")
        (info / "entry_points.txt").write_text(entry_points)
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


def test_entry_points_are_loaded_and_broken_ones_left_out(
    installed: Callable[[str, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    installed(
        "from messaging.receive.classification import Classification\n"
        "from messaging.receive.vocabulary import MailType\n"
        "class Robots:\n"
        "    order = 25\n"
        "    def match(self, message):\n"
        "        return Classification(MailType.AUTO_REPLY) if message.subject == 'robot' else None\n"
        "class Marks:\n"
        "    def apply(self, message, classification):\n"
        "        return classification.with_flags(spam=True)\n"
        "marks = Marks()\n",
        "[messaging.classification_rules]\n"
        "robots = acme_rules:Robots\ngone = acme_rules:Gone\nwrong = acme_rules:Marks\n"
        "[messaging.flag_detectors]\nmarks = acme_rules:marks\nmissing = no_such_module_of_acme:x\n",
    )
    registry = Registry()
    with caplog.at_level(logging.ERROR, "messaging.receive.classify.chain"):
        found = registry.classify(mail("Subject: robot"))
        registry.classify(mail("Subject: robot"))
    assert (found.type, found.flags.spam) == (MailType.AUTO_REPLY, True)
    left_out = {record.__dict__["entry_point"] for record in caplog.records}
    assert left_out == {"acme_rules:Gone", "acme_rules:Marks", "no_such_module_of_acme:x"}
    assert len(caplog.records) == 3  # once in the life of a process


def test_of_a_mail_that_could_not_be_parsed_the_type_is_unknown_and_flags_are_set() -> None:
    headers = mail("Subject: Undeliverable", "X-Spam-Flag: YES", sender="mailer-daemon@mx.example").headers
    found = classify(ParsedMail(headers=headers, truncation_reason=TruncationReason.PARSE_FAILED))
    assert (found.type, found.flags.spam) == (MailType.UNKNOWN, True)


@pytest.mark.parametrize(
    ("content_type", "found_type", "flag"),
    [
        ("multipart/report; report-type=disposition-notification; boundary=b", MailType.READ_RECEIPT, None),
        ("multipart/report; boundary=b; report-type=Feedback-Report", MailType.FEEDBACK_REPORT, None),
        ("text/calendar; method=REQUEST", MailType.CALENDAR_INVITE, None),
        ("multipart/encrypted; boundary=b", MailType.NORMAL, "encrypted"),
        ("multipart/signed; boundary=b", MailType.NORMAL, "signed"),
        ("application/pkcs7-mime; smime-type=enveloped-data", MailType.NORMAL, "encrypted"),
        ("nonsense", MailType.NORMAL, None),
    ],
)
def test_an_envelope_is_known_by_its_headers(content_type: str, found_type: MailType, flag: str | None) -> None:
    whole = mail(f"Content-Type: {content_type}")
    found = classify(ParsedMail(headers=whole.headers, truncation_reason=TruncationReason.BODY_TOO_LARGE))
    assert found.type is found_type
    assert flag is None or getattr(found.flags, flag)
