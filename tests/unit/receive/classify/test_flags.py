"""Flags: what is true of a mail whatever its type."""

import pytest

from messaging.receive.classify.chain import classify
from messaging.receive.vocabulary import MailType
from tests.unit.receive.classify.mails import IS_ANSWER, mail

PKCS7 = "Content-Type: application/pkcs7-mime"


def flags_of(*header_lines: str, body: str = "hello") -> set[str]:
    flags = classify(mail(*header_lines, body=body)).flags
    return {name for name in ("mailing_list", "bulk", "encrypted", "signed", "spam") if getattr(flags, name)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("List-Id: Dev <dev.lists.example>", {"mailing_list"}),
        ("List-Post: <mailto:dev@lists.example>", {"mailing_list"}),
        ("List-Post: NO", {"mailing_list"}),
        ("Mailing-List: contact dev-help@lists.example; run by ezmlm", {"mailing_list"}),
        ("X-Mailing-List: linux-kernel@vger.example", {"mailing_list"}),
        ("X-Mailman-Version: 2.1.39", {"mailing_list"}),
        ("Precedence: LIST", {"mailing_list"}),
        ("List-Id:", set()),
        ("List-Id:   ", set()),
        ("Precedence: bulk", {"bulk"}),
        ("precedence: Junk (really)", {"bulk"}),
        ("Precedence: first-class", set()),
        ("List-Unsubscribe: <https://news.example/u>", {"bulk"}),
        ("List-Unsubscribe: <https://news.example/u>\r\nList-Id: <dev.lists.example>", {"mailing_list"}),
        ("List-Unsubscribe:", set()),
    ],
)
def test_lists_and_bulk(line: str, expected: set[str]) -> None:
    assert flags_of(line) == expected


@pytest.mark.parametrize(  # receive.md R51
    ("line", "expected"),
    [
        ("Content-Type: multipart/encrypted; protocol=application/pgp-encrypted; boundary=b", {"encrypted"}),
        (f"{PKCS7}; smime-type=enveloped-data", {"encrypted"}),
        (f"{PKCS7}; SMIME-Type=Authenticated-Enveloped-Data", {"encrypted"}),
        (f"{PKCS7}; smime-type=authEnveloped-data", {"encrypted"}),
        (f"{PKCS7}; smime-type=anything-else", {"encrypted"}),
        (PKCS7, {"encrypted"}),
        ("Content-Type: application/x-pkcs7-mime", {"encrypted"}),
        (f"{PKCS7}; smime-type=signed-data", {"signed"}),
        (f"{PKCS7}; smime-type=certs-only", set()),
        (f"{PKCS7}; smime-type=compressed-data", set()),
        ("Content-Type: multipart/signed; protocol=application/pkcs7-signature; boundary=b", {"signed"}),
        ("Content-Type: multipart/signed; boundary=b", {"signed"}),
        ("Content-Type: application/octet-stream; name=a.p7m", set()),
    ],
)
def test_encrypted_and_signed_by_type(line: str, expected: set[str]) -> None:
    body = "--b\r\nContent-Type: text/plain\r\n\r\nhi\r\n--b--\r\n" if "boundary" in line else "abc"
    assert flags_of(line, body=body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("-----BEGIN PGP MESSAGE-----\r\n\r\nabc\r\n", {"encrypted"}),
        ("\r\n  \r\n-----BEGIN PGP MESSAGE-----\r\n", {"encrypted"}),
        ("-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA1\r\n", {"signed"}),
        ("> -----BEGIN PGP MESSAGE-----\r\n", set()),
        ("Like this:\r\n-----BEGIN PGP MESSAGE-----\r\n", set()),
        ("-----BEGIN PGP PUBLIC KEY BLOCK-----\r\n", set()),
    ],
)
def test_openpgp_within_the_text(body: str, expected: set[str]) -> None:
    assert flags_of(body=body) == expected


@pytest.mark.parametrize(  # receive.md R52
    ("line", "is_spam"),
    [
        ("X-Spam-Flag: YES", True),
        ("X-Spam-Flag: NO", False),
        ("X-Spam-Flag: NO\r\nX-Spam-Flag: yes", True),
        ("X-Spam-Status: Yes, score=9.1 required=5.0", True),
        ("X-Spam-Status: No, score=0.1 (yes)", False),
        ("X-MS-Exchange-Organization-SCL: 7", True),
        ("X-MS-Exchange-Organization-SCL: 5", True),
        ("X-MS-Exchange-Organization-SCL: 3", False),
        ("X-MS-Exchange-Organization-SCL: -1", False),
        ("X-MS-Exchange-Organization-SCL: x", False),
        (f"X-MS-Exchange-Organization-SCL: {'9' * 5000}", False),
    ],
)
def test_spam_is_what_a_filter_marked(line: str, is_spam: bool) -> None:
    assert flags_of(line) == ({"spam"} if is_spam else set())


def test_a_bounce_of_a_postmaster_with_a_spam_flag_is_both() -> None:  # receive.md R53
    found = classify(
        mail(
            "Subject: Delivery failure",
            "X-Spam-Flag: YES",
            body="550 5.1.1 <lee@customer.example>: no such user",
            sender="postmaster@customer.example",
        )
    )
    assert (found.type, found.flags.spam) == (MailType.BOUNCE, True)


@pytest.mark.parametrize(  # receive.md R50
    ("lines", "body", "expected"),
    [
        (("Content-Type: text/calendar; method=REQUEST",), "BEGIN:VCALENDAR\r\n", MailType.CALENDAR_INVITE),
        (("Auto-Submitted: auto-replied", IS_ANSWER), "away", MailType.AUTO_REPLY),
    ],
)
def test_list_headers_set_flags_and_keep_the_type(lines: tuple[str, ...], body: str, expected: MailType) -> None:
    found = classify(mail("List-Id: <dev.lists.example>", "Precedence: bulk", *lines, body=body))
    assert found.type is expected
    assert (found.flags.mailing_list, found.flags.bulk) == (True, True)
