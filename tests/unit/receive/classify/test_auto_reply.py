"""Automatic answers by what they say of themselves and by their subjects; people's answers stay people's."""

import pytest

from messaging.receive.classify.chain import classify
from messaging.receive.classify.phrases import table
from messaging.receive.classify.reply_subjects import Strength, read_subject
from messaging.receive.vocabulary import MailType
from tests.unit.receive.classify.mails import IS_ANSWER, ORIGINAL_ID, mail, type_of

SUPPRESS = "X-Auto-Response-Suppress: All"


@pytest.mark.parametrize(  # receive.md R49
    ("lines", "expected"),
    [
        (("Auto-Submitted: auto-replied",), "auto_reply"),
        (("Auto-Submitted: Auto-Replied (vacation)",), "auto_reply"),
        (("Auto-Submitted: auto-replied; owner-email=kim@customer.example",), "auto_reply"),
        (("Auto-Submitted: no",), "normal"),
        (("Auto-Submitted: no", IS_ANSWER), "normal"),
        (("Auto-Submitted:", IS_ANSWER), "normal"),
        (("Auto-Submitted: auto-generated", IS_ANSWER), "auto_reply"),
        (("Auto-Submitted: auto-generated", f"References: {ORIGINAL_ID}"), "auto_reply"),
        (("Auto-Submitted: auto-generated",), "normal"),
        (("Auto-Submitted: auto-generated", "In-Reply-To:"), "normal"),
        (("Auto-Submitted: auto-notified",), "normal"),
        (("Auto-Submitted: auto-generated", "Subject: Re: x"), "auto_reply"),
        (("Auto-Submitted: auto-generated", "Subject: FW: RE: x", IS_ANSWER), "normal"),
        (("Auto-Submitted: auto-generated", "Subject: FW: Automatic reply: x"), "auto_reply"),
        (("Auto-Submitted: auto-generated", "Resent-From: lee@shop.example", IS_ANSWER), "normal"),
        (("Auto-Submitted: auto-forwarded", IS_ANSWER), "normal"),
        (("Auto-Submitted: auto-generated", "Subject: Automatic reply: x"), "auto_reply"),
        (("Auto-Submitted: auto-generated", "Subject: Re: Vacation"), "auto_reply"),
        ((SUPPRESS, "Subject: Automatic reply: x"), "auto_reply"),
        ((SUPPRESS, "Subject: x"), "normal"),
        ((SUPPRESS, IS_ANSWER, "Subject: Re: x"), "normal"),
        (("Precedence: auto_reply",), "auto_reply"),
        (("Precedence: Auto-Reply",), "auto_reply"),
        (("X-Autoreply: yes",), "auto_reply"),
        (("X-Autoreply: no",), "normal"),
        (("X-Autorespond: Your order",), "auto_reply"),
        (("Subject: Automatic reply: x",), "normal"),
        (("Subject: Automatic reply: x", IS_ANSWER), "auto_reply"),
        (("Subject: Automatic reply: x", "Return-Path: <>"), "auto_reply"),
        (("Subject: Vacation", IS_ANSWER), "normal"),
        (("Subject: Vacation", "Return-Path: <>"), "auto_reply"),
        (("Subject: Vacation", "Precedence: junk"), "normal"),
        (("Subject: Vacation", "Precedence: junk", IS_ANSWER), "auto_reply"),
        (("Subject: Out of office", "Precedence: junk"), "auto_reply"),
        (("Subject: Out of office", "Precedence: bulk", "List-Unsubscribe: <https://u.example>"), "normal"),
        (("X-Apple-Action: OOF",), "auto_reply"),
        (("X-POST-MessageClass: 9; Autoresponder",), "auto_reply"),
    ],
)
def test_signs_of_an_automatic_answer(lines: tuple[str, ...], expected: str) -> None:
    assert type_of(mail(*lines)) == expected


def test_a_list_answers_nobody_unless_it_says_so() -> None:
    on_list = ("List-Id: <dev.lists.example>", IS_ANSWER)
    assert type_of(mail(*on_list, "Auto-Submitted: auto-generated", "Subject: Automatic reply: x")) == "normal"
    assert type_of(mail(*on_list, "Subject: Out of office")) == "normal"
    assert type_of(mail(*on_list, "Auto-Submitted: auto-replied")) == "auto_reply"


@pytest.mark.parametrize("subject", ["Undelivered Mail Returned to Sender", "Mail delivery failed: returning message"])
def test_a_bounce_in_spite_of_auto_replied_is_no_automatic_answer(subject: str) -> None:
    message = mail(
        "Auto-Submitted: auto-replied", f"Subject: {subject}", body="550 5.1.1 <lee@customer.example> unknown"
    )
    assert type_of(message) == "bounce"


def test_a_report_without_its_machine_part_is_no_automatic_answer() -> None:
    found = type_of(
        mail(
            "Auto-Submitted: auto-replied",
            "Subject: Problem",
            "Content-Type: multipart/report; report-type=delivery-status; boundary=b",
            body="--b\r\nContent-Type: text/plain\r\n\r\n<lee@customer.example>: 550 5.1.1 unknown\r\n--b--\r\n",
            sender="mailer-daemon@mx.example",
        )
    )
    assert found == "bounce"


def test_a_dsn_that_says_auto_replied_is_a_bounce() -> None:  # receive.md R43
    found = classify(
        mail(
            "Auto-Submitted: auto-replied",
            "Subject: Undelivered Mail Returned to Sender",
            "Content-Type: multipart/report; report-type=delivery-status; boundary=b",
            body="--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n"
            "Final-Recipient: rfc822; lee@customer.example\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n--b--\r\n",
            sender="mailer-daemon@mx.example",
        )
    )
    assert found.type is MailType.BOUNCE


# bounce bounce-05
def test_a_holiday_notice_that_speaks_of_delivery_is_no_bounce() -> None:
    found = classify(
        mail(
            IS_ANSWER,
            "Subject: Automatic reply: your invoice could not be delivered to my desk",
            "Auto-Submitted: auto-replied",
            SUPPRESS,
            body="I am away. Undelivered mail is read on Monday.",
        )
    )
    assert found.type is MailType.AUTO_REPLY
    assert found.reference_ids == (ORIGINAL_ID,)


@pytest.mark.parametrize("prefix", ["Automatic reply", "Auto", "Re", "Urlaub", "[Ticket 7] Re"])
def test_words_behind_automatic_reply_are_somebody_elses(prefix: str) -> None:
    subject = f"Subject: {prefix}: Undeliverable: Your order"
    assert type_of(mail("Auto-Submitted: auto-replied", subject, IS_ANSWER, "Return-Path: <>")) == "auto_reply"


def test_a_colleague_who_rejects_something_answers_as_a_person() -> None:  # receive.md R47
    message = mail(IS_ANSWER, "Subject: Re: Offer", body="The board rejected it. 550 was too much, sorry.")
    found = classify(message)
    assert (found.type, found.reference_ids) == (MailType.NORMAL, ())


def test_it_is_about_what_it_answers_the_last_reference_first_after_in_reply_to() -> None:
    references = "References: <first@shop.example> <second@shop.example>"
    found = classify(mail("Auto-Submitted: auto-replied", references, "In-Reply-To: <third@shop.example>"))
    assert found.reference_ids == ("<third@shop.example>", "<second@shop.example>", "<first@shop.example>")


@pytest.mark.parametrize(
    ("subject", "strength", "has_prefix"),
    [
        ("Automatic reply: x", Strength.PROGRAM, False),
        ("AUTOMATIC  REPLY :x", Strength.PROGRAM, False),
        ("Re: Automatic reply: x", Strength.PROGRAM, True),
        ("RE[2]: Automatic reply", Strength.PROGRAM, True),
        ("AW: WG: Automatische Antwort: x", Strength.PROGRAM, True),
        ("Antw.: x", Strength.NONE, False),
        ("回复：自动回复：x", Strength.PROGRAM, True),
        ("[EXT] {Spam?} Automatic reply: x", Strength.PROGRAM, False),
        ("[EXT] SV: Autosvar: x", Strength.PROGRAM, True),
        ("***SPAM*** Risposta automatica: x", Strength.PROGRAM, False),
        ("Réponse automatique : x", Strength.PROGRAM, False),
        ("Réponse automatique\xa0: x", Strength.PROGRAM, False),
        ("Out of office Re: x", Strength.PROGRAM, False),
        ("Out of office - back on Monday", Strength.PROGRAM, False),
        ("Out of office plans", Strength.NONE, False),
        ("Auto: x", Strength.COMMON, False),
        ("【自動返信】お問い合わせ", Strength.PROGRAM, False),
        ("(Auto-Reply) x", Strength.PROGRAM, False),
        ("Re: [Auto-Reply] x", Strength.PROGRAM, True),
        ("Automobile: x", Strength.NONE, False),
        ("Auto insurance", Strength.NONE, False),
        ("Kim Berg is out of the office (returning Monday)", Strength.PROGRAM, False),
        ("自動応答: x", Strength.PROGRAM, False),
        ("[自动回复]x", Strength.PROGRAM, False),
        ("Urlaub", Strength.COMMON, False),
        ("Urlaubsplanung", Strength.NONE, False),
        ("", Strength.NONE, False),
        (None, Strength.NONE, False),
        ("Re: " * 5000, Strength.NONE, True),
        ("[" * 5000, Strength.NONE, False),
    ],
)
def test_how_subjects_are_read(subject: str | None, strength: Strength, has_prefix: bool) -> None:
    assert read_subject(subject)[:2] == (strength, has_prefix)


def test_every_phrase_of_the_table_is_found_in_any_case_and_in_front_of_a_subject() -> None:
    read = table("auto_replies")
    for name, strength in (("program", Strength.PROGRAM), ("common", Strength.COMMON)):
        for phrase in read[name]:
            for subject in (f"{phrase}: Order", phrase.upper(), f"{phrase} (Order)"):
                assert read_subject(subject) == (strength, False, False), subject
    for phrase in read["behind_a_name"]:
        assert read_subject(f"Kim Berg {phrase}").strength is Strength.COMMON, phrase
        assert read_subject(f"Kim Berg {phrase}.").strength is Strength.PROGRAM, phrase
        assert read_subject(f"AUTO: Kim Berg {phrase}").strength is Strength.PROGRAM, phrase


def test_accents_and_case_make_no_difference() -> None:
    subjects = ["REPONSE AUTOMATIQUE : x", "ΑΥΤΟΜΑΤΗ ΑΠΑΝΤΗΣΗ: x", "OTOMATIK YANIT: x", "Automaticka odpoved: x"]
    assert {read_subject(subject).strength for subject in subjects} == {Strength.PROGRAM}


@pytest.mark.parametrize("prefix", [word for words in table("auto_replies")["prefix"].values() for word in words])
def test_a_person_who_answers_an_automatic_reply_is_a_person(prefix: str) -> None:
    for subject in (f"{prefix}: Automatic reply: x", f"{prefix.upper()}: Out of office", f"{prefix}：自動応答: x"):
        assert type_of(mail(IS_ANSWER, f"Subject: {subject}")) == "normal", subject
