"""Whatever a mail holds, it gets a type and flags: mutated samples, and envelopes of which nothing else is known."""

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.receive.classification import Classification
from messaging.receive.classify.chain import RULES, Chain, classify
from messaging.receive.classify.flags import DETECTORS
from messaging.receive.classify.summary import summarise
from messaging.receive.headers import parse_headers
from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import ParsedMail
from messaging.receive.vocabulary import MailType

SAMPLES = sorted((Path(__file__).parents[3] / "data" / "classified").rglob("*.eml"))
#: What breaks a report's fields and a subject's reading rather than the MIME structure.
FRAGMENTS = (
    b"\x00",
    b"\xff\xfe",
    b"\r\n\r\n",
    b"\r\n ",
    b";",
    b"<>",
    b"@",
    b": ",
    b"=?utf-8?b?",
    b"=?x-none?q?=FF?=",
    b"Disposition: ;;;/",
    b"Final-Recipient: rfc822;",
    b"Original-Message-ID: <<>",
    b"METHOD:",
    b"--b42",
    b"multipart/report; report-type=",
    b"Auto-Submitted: (",
    b"Subject: Re[",
    b"Original-Rcpt-To: ,,,\r\n",
)


class Unwilling:
    """A rule and a detector that take no mail."""

    order = 50

    def match(self, message: ParsedMail) -> Classification | None:
        raise ValueError(message.subject)

    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        raise ValueError(message.subject)


def well_formed(found: Classification) -> None:
    json.dumps(summarise(found))
    assert isinstance(found.type, MailType)
    assert found.detail is None or len(found.detail) <= 50
    assert len(found.reference_ids) <= 50
    assert all(isinstance(one, str) and one for one in found.reference_ids)


def mutated(raw: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randrange(1, 6)):
        at, upto = sorted((rng.randrange(len(raw) + 1), rng.randrange(len(raw) + 1)))
        match rng.randrange(5):
            case 0:
                raw = raw[:at] + rng.choice(FRAGMENTS) + raw[at:]
            case 1:
                raw = raw[:at] + raw[min(upto, at + 40) :]
            case 2:
                raw = raw[:at] + raw[at : at + 60] * 3 + raw[at:]
            case 3:
                raw = raw[:upto]
            case _:
                raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
    return raw


@given(st.sampled_from(SAMPLES), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_a_mutated_mail_gets_a_type_from_rules_none_of_which_raises(path: Path, rng: random.Random) -> None:
    message = parse(mutated(path.read_bytes(), rng), ParseLimits())
    for rule in RULES:
        rule.match(message)
    found = classify(message)
    for detector in DETECTORS:
        assert detector.apply(message, found) == found
    well_formed(found)


@given(st.sampled_from(SAMPLES), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_an_envelope_gets_a_type(path: Path, rng: random.Random) -> None:
    headers = parse_headers(mutated(path.read_bytes(), rng))
    message = ParsedMail(headers=headers, subject=headers.first("Subject"))
    for rule in RULES:
        rule.match(message)
    well_formed(classify(message))


@given(st.binary(max_size=400))
@settings(max_examples=50, deadline=None)
def test_octets_get_a_type(raw: bytes) -> None:
    well_formed(classify(parse(raw, ParseLimits())))


@given(st.sampled_from(SAMPLES))
@settings(max_examples=20, deadline=None)
def test_a_chain_in_which_everything_raises_answers_unknown(path: Path) -> None:  # receive.md R54
    chain = Chain([Unwilling(), Unwilling()], [Unwilling()])
    assert classify(parse(path.read_bytes(), ParseLimits()), chain) == Classification(MailType.UNKNOWN)


@pytest.mark.parametrize(
    "raw",
    [
        b"Subject: " + b"Re: " * 20_000 + b"\r\n\r\n",
        b"Subject: " + b"[a] " * 20_000 + b"\r\n\r\n",
        b"Subject: " + b"<" * 50_000 + b"\r\n\r\n",
        b"Auto-Submitted: auto-replied\r\nReferences: " + b"<a@b> " * 20_000 + b"\r\n\r\n",
        b"Content-Type: text/calendar\r\n\r\n" + b"METHOD;" * 50_000,
        b"Content-Type: text/calendar\r\n\r\n" + b"\r\n METHOD" * 50_000,
        b"Content-Type: multipart/report; report-type=disposition-notification; boundary=b\r\n\r\n--b\r\n"
        b"Content-Type: message/disposition-notification\r\n\r\nDisposition: " + b"(" * 50_000 + b"\r\n--b--\r\n",
        b"Content-Type: message/disposition-notification\r\n\r\n" + b"Disposition: x\r\n a\r\n" * 20_000,
        b"Content-Type: multipart/report; report-type=feedback-report; boundary=b\r\n\r\n--b\r\n"
        b"Content-Type: message/feedback-report\r\n\r\n" + b"Original-Rcpt-To: a@b.example\r\n" * 20_000 + b"--b--\r\n",
    ],
    ids=lambda raw: str(raw[:40]),
)
def test_a_mail_made_to_cost_time_costs_little(raw: bytes) -> None:
    message = parse(raw, ParseLimits())
    started = time.perf_counter()
    well_formed(classify(message))
    assert time.perf_counter() - started < 5
