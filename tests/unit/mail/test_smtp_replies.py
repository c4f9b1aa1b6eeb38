"""Reply codes, enhanced statuses and words to categories: send.md section 10, row by row."""

import pytest

from messaging.category import ErrorCategory
from messaging.delivery.error_words import classify_words
from messaging.mail.smtp_replies import (
    FaultCode,
    Reply,
    Stage,
    classify,
    enhanced_status,
    error_code,
)

TRANSIENT = ErrorCategory.TRANSIENT
QUOTA = ErrorCategory.QUOTA
UNKNOWN = ErrorCategory.UNKNOWN
PERMANENT = ErrorCategory.PERMANENT
INVALID_INPUT = ErrorCategory.INVALID_INPUT
AUTH = ErrorCategory.AUTH

MAIL_STAGES = (Stage.MAIL, Stage.RCPT, Stage.DATA)

# Sections 10.3 and 10.4 written out a second time, by category, so that a slip in the product's table shows.
CODES = {
    TRANSIENT: (421, 450, 451, 452, 454, 455, 422, 431, 441, 442, 446, 447, 449, 453, 458, 459, 471),
    AUTH: (432, 525, 530, 534, 535, 538),
    PERMANENT: (500, 502, 503, 504, 510, 511, 512, 515, 517, 521, 541, 550, 551, 553, 554, 556),
    INVALID_INPUT: (501, 523, 555),
}
BY_CLASS = (
    [f"1.{d}" for d in (0, 1, 2, 4, 6, 9)]
    + [f"2.{d}" for d in (0, 1, 2, 4)]
    + [f"3.{d}" for d in (0, 1, 2, 3, 5, 6)]
    + [f"4.{d}" for d in (0, 1, 2, 3, 4, 6, 7)]
    + [f"5.{d}" for d in (0, 1, 2, 4, 5)]
    + [f"7.{d}" for d in (*range(8), 15, *range(17, 28), 29, 30)]
)
BOTH_CLASSES = {
    INVALID_INPUT: ("2.3", "3.4", "5.3", "7.16"),
    AUTH: ("5.6", "7.8", "7.9", "7.10", "7.11", "7.13", "7.14"),
    QUOTA: ("7.28",),
}
ONE_CLASS = {
    INVALID_INPUT: ("5.1.3", "5.1.7", *(f"5.6.{d}" for d in range(11))),
    PERMANENT: ("5.1.8", "5.1.10"),
    TRANSIENT: ("4.4.5", *(f"4.6.{d}" for d in range(11))),
    QUOTA: ("5.4.5",),
    AUTH: ("4.7.12",),
}
STATUSES = (
    [(f"4.{s}", TRANSIENT) for s in BY_CLASS]
    + [(f"5.{s}", PERMANENT) for s in BY_CLASS]
    + [(f"{c}.{s}", category) for category, rows in BOTH_CLASSES.items() for s in rows for c in (4, 5)]
    + [(s, category) for category, rows in ONE_CLASS.items() for s in rows]
)


@pytest.mark.parametrize("stage", MAIL_STAGES)
@pytest.mark.parametrize(
    ("code", "category"), [(code, category) for category, codes in CODES.items() for code in codes]
)
def test_every_listed_code_has_its_category(code: int, category: ErrorCategory, stage: Stage) -> None:  # send.md 10.3
    assert classify(Reply(code, "no"), stage) is category


@pytest.mark.parametrize(
    ("stage", "category"),
    [(Stage.RCPT, PERMANENT), (Stage.DATA, INVALID_INPUT), (None, INVALID_INPUT), (Stage.MAIL, INVALID_INPUT)],
)
def test_552_is_the_mailbox_at_rcpt_and_the_message_elsewhere(stage: Stage | None, category: ErrorCategory) -> None:
    # At MAIL it answers the SIZE parameter: RFC 1870 section 6.1.
    assert classify(Reply(552, "exceeded"), stage) is category


@pytest.mark.parametrize(
    ("code", "category"),
    [(400, TRANSIENT), (499, TRANSIENT), (505, PERMANENT), (599, PERMANENT)]
    + [(code, UNKNOWN) for code in (-1, 0, 200, 250, 354, 399, 600, 999)],
)
def test_an_unlisted_code_goes_by_its_class(code: int, category: ErrorCategory) -> None:
    assert classify(Reply(code, "hm"), Stage.RCPT) is category


@pytest.mark.parametrize("stage", [*MAIL_STAGES, None])
@pytest.mark.parametrize(("status", "category"), STATUSES)
def test_every_listed_status_has_its_category(status: str, category: ErrorCategory, stage: Stage | None) -> None:
    # send.md 10.4; 450 and 550 would say something else for most of them.
    code = 450 if status.startswith("4") else 550
    assert classify(Reply(code, f"{status} words"), stage) is category


def test_every_listed_status_is_tested_once() -> None:
    assert len({status for status, _ in STATUSES}) == len(STATUSES)


@pytest.mark.parametrize(
    ("reply", "stage", "category"),
    [
        pytest.param(Reply(535, "5.7.8 Bad credentials"), Stage.AUTH, AUTH, id="F2"),
        pytest.param(Reply(550, "5.1.1 User unknown"), Stage.RCPT, PERMANENT, id="F3"),
        pytest.param(Reply(450, "4.2.0 Greylisted, see later"), Stage.RCPT, TRANSIENT, id="F4"),
        pytest.param(Reply(452, "4.2.2 Mailbox full"), Stage.RCPT, TRANSIENT, id="F5-mailbox"),
        pytest.param(Reply(452, "4.5.3 Too many recipients"), Stage.RCPT, INVALID_INPUT, id="F5-all"),
        pytest.param(Reply(530, "5.7.0 Must issue a STARTTLS command first"), Stage.MAIL, AUTH, id="F5a"),
        pytest.param(Reply(552, "5.3.4 Message too big"), Stage.DATA, INVALID_INPUT, id="F6"),
        pytest.param(Reply(552, "5.3.4 Message too big"), Stage.RCPT, INVALID_INPUT, id="F6-rcpt"),
        pytest.param(Reply(421, "4.7.28 Unusual rate of mail"), Stage.MAIL, QUOTA, id="F7"),
        pytest.param(Reply(554, "No SMTP service here"), Stage.CONNECT, TRANSIENT, id="F8"),
        pytest.param(Reply(451, "4.7.1 Try again later"), Stage.RCPT, TRANSIENT, id="class-01"),
        pytest.param(
            Reply(550, "5.1.1 The account does not exist\n5.1.1 see example.com"), Stage.RCPT, PERMANENT, id="class-02"
        ),
        # The subject speaks for an unlisted detail, and nothing but the class for subject 0.
        pytest.param(Reply(452, "4.2.99 odd"), Stage.RCPT, TRANSIENT, id="unlisted-detail"),
        pytest.param(Reply(552, "5.2.99 odd"), Stage.DATA, PERMANENT, id="unlisted-detail-beats-the-code"),
        pytest.param(Reply(552, "5.0.0 odd"), Stage.DATA, INVALID_INPUT, id="subject-0-leaves-it-to-the-code"),
        pytest.param(Reply(550, "5.9.1 odd"), Stage.RCPT, PERMANENT, id="unknown-subject"),
        pytest.param(Reply(450, "4.6.77 odd"), Stage.DATA, TRANSIENT, id="4.6.z"),
        # The rows of one class say nothing about the other.
        pytest.param(Reply(451, "4.1.3 syntax"), Stage.RCPT, TRANSIENT, id="4.1.3"),
        pytest.param(Reply(451, "4.1.8 sender"), Stage.MAIL, TRANSIENT, id="4.1.8"),
        pytest.param(Reply(550, "5.7.12 odd"), Stage.MAIL, PERMANENT, id="5.7.12"),
        # Real words of large servers.
        pytest.param(Reply(550, "5.4.5 Daily user sending limit exceeded"), Stage.DATA, QUOTA, id="daily-limit"),
        pytest.param(Reply(550, "5.7.26 unauthenticated sender"), Stage.DATA, PERMANENT, id="no-dkim"),
        pytest.param(Reply(554, "5.7.1 Relay access denied"), Stage.RCPT, PERMANENT, id="relay-denied"),
        # Words count only where no number speaks: a 4yz with "quota" stays TRANSIENT, a 5yz with "timeout" PERMANENT.
        pytest.param(Reply(450, "over quota"), Stage.RCPT, TRANSIENT, id="words-after-class-4"),
        pytest.param(Reply(550, "timeout, try again"), Stage.RCPT, PERMANENT, id="words-after-class-5"),
        pytest.param(Reply(-1, "Connection reset"), Stage.RCPT, TRANSIENT, id="words-without-a-code"),
    ],
)
def test_a_reply_is_classified(reply: Reply, stage: Stage, category: ErrorCategory) -> None:
    assert classify(reply, stage) is category


@pytest.mark.parametrize("reply", [Reply(452, "4.5.3 Too many"), Reply(552, "5.5.3 Too many")])
def test_too_many_recipients_is_cured_by_the_next_attempt_when_others_were_taken(reply: Reply) -> None:  # F5
    assert classify(reply, Stage.RCPT, others_taken=True) is TRANSIENT
    assert classify(reply, Stage.RCPT, others_taken=False) is INVALID_INPUT


@pytest.mark.parametrize("code", [452, 550, 552])
def test_too_many_recipients_in_words_alone_is_known_where_others_were_taken(code: int) -> None:
    # RFC 5321, 4.5.3.1.10: 552 is what RFC 821 had for it, and temporary in this case.
    assert classify(Reply(code, "Too many recipients"), Stage.RCPT, others_taken=True) is TRANSIENT
    alone = {452: TRANSIENT, 550: PERMANENT, 552: PERMANENT}[code]
    assert classify(Reply(code, "Too many recipients"), Stage.RCPT, others_taken=False) is alone
    assert classify(Reply(552, "5.2.2 mailbox full, too many recipients"), Stage.RCPT, others_taken=True) is PERMANENT


def test_others_taken_changes_no_other_refusal() -> None:
    assert classify(Reply(552, "mailbox full"), Stage.RCPT, others_taken=True) is PERMANENT
    assert classify(Reply(550, "5.1.1 gone"), Stage.RCPT, others_taken=True) is PERMANENT
    assert classify(Reply(550, "5.7.28 flood"), Stage.RCPT, others_taken=True) is QUOTA


@pytest.mark.parametrize("code", [432, 525, 530, 534, 535, 538])
@pytest.mark.parametrize("status", ["7.0", "7.1"])
@pytest.mark.parametrize("stage", MAIL_STAGES)
def test_codes_that_say_more_than_the_policy_status_go_first(code: int, status: str, stage: Stage) -> None:
    assert classify(Reply(code, f"{code // 100}.{status} policy"), stage) is AUTH


@pytest.mark.parametrize(
    ("stage", "code", "text", "category"),
    [
        (Stage.CONNECT, 421, "busy", TRANSIENT),
        (Stage.CONNECT, 550, "5.7.1 blocked", TRANSIENT),
        (Stage.CONNECT, 535, "odd", TRANSIENT),
        (Stage.CONNECT, 421, "4.7.28 flood", TRANSIENT),
        (Stage.EHLO, 421, "busy", TRANSIENT),
        (Stage.EHLO, 501, "bad name", TRANSIENT),
        (Stage.EHLO, 250, "out of step", UNKNOWN),
        (Stage.STARTTLS, 454, "4.3.0 not now", TRANSIENT),
        (Stage.STARTTLS, 421, "closing", TRANSIENT),
        (Stage.STARTTLS, 501, "no parameters allowed", AUTH),
        (Stage.STARTTLS, 502, "5.5.1 unknown command", AUTH),
        (Stage.STARTTLS, 554, "5.6.0 odd", AUTH),
        (Stage.AUTH, 432, "4.7.12 change the password", AUTH),
        (Stage.AUTH, 432, "4.3.2 Concurrent connections limit exceeded.", TRANSIENT),
        (Stage.DATA, 432, "4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded", TRANSIENT),
        (Stage.AUTH, 421, "4.7.28 flood", TRANSIENT),
        (Stage.AUTH, 454, "4.7.0 temporary authentication failure", TRANSIENT),
        (Stage.AUTH, 500, "5.5.6 line too long", AUTH),
        (Stage.AUTH, 535, "5.7.8 invalid", AUTH),
        (Stage.AUTH, 550, "5.4.5 limit", AUTH),
        (Stage.AUTH, 503, "5.5.1 already", AUTH),
    ],
)
def test_the_stage_decides_first(stage: Stage, code: int, text: str, category: ErrorCategory) -> None:  # 10.2
    assert classify(Reply(code, text), stage) is category


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        pytest.param(Reply(550, "5.1.1 gone"), "5.1.1", id="at-the-start"),
        pytest.param(Reply(550, "  5.1.1 gone"), "5.1.1", id="after-blanks"),
        pytest.param(Reply(550, "gone (5.1.1), see 5.7.1"), "5.1.1", id="the-first-inside"),
        pytest.param(Reply(550, "#5.1.1"), "5.1.1", id="with-a-hash"),
        pytest.param(Reply(550, "status 5.1.1."), "5.1.1", id="ends-a-sentence"),
        pytest.param(Reply(550, "5.1.1 no\n5.1.1 really"), "5.1.1", id="every-line-carries-it"),
        pytest.param(Reply(550, "no\n5.1.1 really"), "5.1.1", id="second-line"),
        pytest.param(Reply(450, "4.7.100 x"), "4.7.100", id="three-digits"),
        pytest.param(Reply(250, "2.0.0 queued"), "2.0.0", id="success"),
        pytest.param(Reply(550, "4.2.1 odd"), None, id="class-differs"),
        pytest.param(Reply(450, "5.1.1 odd"), None, id="class-differs-4"),
        pytest.param(Reply(550, "2.0.0 ok, 5.1.1"), None, id="only-the-first-counts"),
        pytest.param(Reply(550, "192.0.2.4 is listed"), None, id="address-with-a-status-inside"),
        pytest.param(Reply(550, "5.6.7.8 is listed"), None, id="address-that-starts-like-one"),
        pytest.param(Reply(550, "15.1.1"), None, id="longer-number-before"),
        pytest.param(Reply(550, "5.1.1234"), None, id="longer-number-after"),
        pytest.param(Reply(550, "3.1.1 x"), None, id="no-such-class"),
        pytest.param(Reply(550, "5-1-1"), None, id="no-dots"),
        pytest.param(Reply(550, "\u0665.1.1"), None, id="other-digits"),
        pytest.param(Reply(550, ""), None, id="empty"),
    ],
)
def test_the_enhanced_status_is_found(reply: Reply, status: str | None) -> None:
    assert enhanced_status(reply) == status


def test_a_status_of_another_class_is_ignored() -> None:
    assert classify(Reply(550, "4.2.1 odd"), Stage.RCPT) is PERMANENT
    assert classify(Reply(450, "5.1.3 odd"), Stage.RCPT) is TRANSIENT
    assert classify(Reply(501, "4.2.1 odd"), Stage.RCPT) is INVALID_INPUT


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(550, "5.1.1 gone"), "SMTP_550_5.1.1"),
        (Reply(550, "gone"), "SMTP_550"),
        (Reply(550, "4.1.1 gone"), "SMTP_550"),
        (Reply(250, "ok"), "SMTP_250"),
    ],
)
def test_the_error_code_names_reply_and_status(reply: Reply, code: str) -> None:
    assert error_code(reply) == code


@pytest.mark.parametrize(
    ("words", "category"),
    [(w, QUOTA) for w in ("rate limit", "too many requests", "quota", "throttl", "too many messages")]
    + [(w, AUTH) for w in ("unauthorized", "forbidden", "invalid credentials", "authentication failed")]
    + [(w, PERMANENT) for w in ("no such user", "user unknown", "does not exist")]
    + [(w, INVALID_INPUT) for w in ("invalid address", "malformed", "bad recipient", "no recipient")]
    + [(w, TRANSIENT) for w in ("timeout", "timed out", "connection reset", "unavailable", "try again")],
)
def test_words_decide_when_no_number_does(words: str, category: ErrorCategory) -> None:  # 10.5
    assert classify_words(f"Sorry: {words.title()}, bye") is category
    assert classify(Reply(-1, f"sorry: {words.upper()}"), Stage.DATA) is category


@pytest.mark.parametrize("text", [None, "", "something else"])
def test_what_nothing_explains_is_unknown(text: str | None) -> None:  # F11
    assert classify_words(text) is UNKNOWN
    assert classify(Reply(0, text or ""), None) is UNKNOWN


@pytest.mark.parametrize(
    ("fault", "category"),
    [
        ("SMTP_DISCONNECTED", TRANSIENT),
        ("SMTP_NO_REPLY_AFTER_DATA", TRANSIENT),
        ("SMTP_NOT_SUPPORTED", AUTH),
        ("SMTP_UTF8_UNSUPPORTED", INVALID_INPUT),
        ("SMTP_TIMEOUT", TRANSIENT),
        ("SMTP_CONNECT", TRANSIENT),
        ("SMTP_DNS", TRANSIENT),
        ("SMTP_TLS_CERT", AUTH),
        ("SMTP_TLS", TRANSIENT),
        ("SMTP_ENCODING", INVALID_INPUT),
        ("SMTP_MESSAGE", INVALID_INPUT),
        ("SMTP_SIZE", INVALID_INPUT),
    ],
)
def test_every_fault_without_a_reply_has_its_category(fault: str, category: ErrorCategory) -> None:  # 10.1
    assert FaultCode(fault).category is category


def test_no_fault_is_without_a_row_above() -> None:
    assert len(FaultCode) == 12
