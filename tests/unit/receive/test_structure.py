"""The tree of parts, whole and broken (RFC 2046, 5.1)."""

import pytest

from messaging.receive.parse import ParseLimits, parse
from messaging.receive.parsed import Part

HEAD = b"Subject: x\r\n"


def tree(raw: bytes) -> Part:
    root = parse(HEAD + raw, ParseLimits()).root
    assert root is not None
    return root


def leaves(raw: bytes) -> list[tuple[str, bytes]]:
    return [(part.content_type, part.content) for part in tree(raw).walk() if not part.is_multipart]


def mixed(boundary: bytes, body: bytes) -> bytes:
    return b'Content-Type: multipart/mixed; boundary="' + boundary + b'"\r\n\r\n' + body


def test_the_tree_tells_what_is_signed() -> None:
    root = tree(
        b'Content-Type: multipart/signed; protocol="application/pgp-signature"; micalg=pgp-sha256; boundary=s\r\n\r\n'
        b"--s\r\nContent-Type: text/plain\r\n\r\nwords\r\n"
        b'--s\r\nContent-Type: application/pgp-signature; name="signature.asc"\r\n'
        b"Content-ID: <sig@example.com>\r\nContent-Disposition: inline\r\n\r\n-----BEGIN\r\n--s--\r\n"
    )
    assert (root.content_type, root.depth, root.content) == ("multipart/signed", 0, b"")
    assert root.parameters["protocol"] == "application/pgp-signature"
    text, signature = root.parts
    assert (text.content_type, text.depth, text.text(), text.parts) == ("text/plain", 1, "words", ())
    assert (signature.file_name, signature.content_id) == ("signature.asc", "sig@example.com")
    assert (signature.disposition, signature.headers.first("content-id")) == ("inline", "<sig@example.com>")
    assert list(root.walk()) == [root, text, signature]


@pytest.mark.parametrize(
    ("boundary", "body", "contents"),
    [
        # whole
        (b"b", b"preamble\r\n--b\r\n\r\none\r\n--b\r\n\r\ntwo\r\n--b--\r\nepilogue", [b"one", b"two"]),
        (b"b", b"--b\n\none\n--b\n\ntwo\n--b--\n", [b"one", b"two"]),
        (b"b", b"--b\r\rone\r--b\r\rtwo\r--b--\r", [b"one", b"two"]),
        (b"b", b"--b\r\n\r\none\n--b\r\rtwo\r--b--", [b"one", b"two"]),
        (b"b", b"--b \t\r\n\r\none\r\n--b \r\n\r\ntwo\r\n--b-- \r\n", [b"one", b"two"]),
        (b"b", b"--b\r\n\r\none\r\n\r\n--b\r\n\r\n\r\ntwo\r\n--b--", [b"one\r\n", b"\r\ntwo"]),
        (b"b", b"--b\r\nX: 1\r\n--b\r\n\r\n--b\r\n--b--", [b"", b"", b""]),
        # no closing delimiter, no line end after it, more after it
        (b"b", b"--b\r\n\r\none\r\n--b\r\n\r\ntwo\r\n", [b"one", b"two\r\n"]),
        (b"b", b"--b\r\n\r\none\r\n--b--", [b"one"]),
        (b"b", b"--b\r\n\r\none\r\n--b--\r\n--b\r\n\r\ntwo\r\n", [b"one"]),
        (b"b", b"--b--\r\n\r\none", [b"--b--\r\n\r\none"]),
        # not at the beginning of a line, or not the whole of it
        (b"b", b"--b\r\n\r\none --b\r\n--bb\r\n--b-\r\n--b x\r\n--b--", [b"one --b\r\n--bb\r\n--b-\r\n--b x"]),
        # boundaries with marks of their own
        (b"b--", b"--b--\r\n\r\none\r\n--b----\r\n", [b"one"]),
        (b"=_(a+b)?.*[", b"--=_(a+b)?.*[\r\n\r\none\r\n--=_(a+b)?.*[--\r\n", [b"one"]),
        (b"a b", b"--a b\r\n\r\none\r\n--a b--\r\n", [b"one"]),
        ("é".encode(), "--é\r\n\r\none\r\n--é--\r\n".encode(), [b"one"]),
        # another boundary than the declared one, or none
        (b"declared", b"--used\r\nContent-Type: text/plain\r\n\r\none\r\n--used--\r\n", [b"one"]),
        (b"", b"--used\r\ncontent-type: text/plain\r\n\r\none\r\n--used--\r\n", [b"one"]),
        (b"b ", b"--b\r\n\r\none\r\n--b \r\n\r\ntwo\r\n--b--\r\n", [b"one", b"two"]),
        (b" ", b"--\r\n\r\none\r\n----\r\n", [b"--\r\n\r\none\r\n----\r\n"]),
        (b"declared", b"no part at all", [b"no part at all"]),
        (b"declared", b"", []),
    ],
)
def test_delimiters(boundary: bytes, body: bytes, contents: list[bytes]) -> None:
    assert [content for _, content in leaves(mixed(boundary, body))] == contents


def test_boundaries_that_are_prefixes_of_each_other() -> None:
    inner = mixed(b"bb", b"--bb\r\n\r\none\r\n--bb\r\n\r\ntwo\r\n--bb--\r\n")
    raw = mixed(b"b", b"--b\r\n" + inner + b"--b\r\n\r\nthree\r\n--b--\r\n")
    assert [content for _, content in leaves(raw)] == [b"one", b"two", b"three"]
    inner = mixed(b"b", b"--b\r\n\r\none\r\n--b\r\n\r\ntwo\r\n--b--\r\n")
    raw = mixed(b"bb", b"--bb\r\n" + inner + b"--bb\r\n\r\nthree\r\n--bb--\r\n")
    assert [content for _, content in leaves(raw)] == [b"one", b"two", b"three"]


def test_an_inner_multipart_that_is_not_closed_ends_with_its_parent() -> None:
    raw = mixed(b"o", b"--o\r\n" + mixed(b"i", b"--i\r\n\r\none\r\n") + b"--o\r\n\r\ntwo\r\n--o--\r\n")
    assert [content for _, content in leaves(raw)] == [b"one", b"two"]


def test_an_inner_multipart_with_its_parents_boundary() -> None:
    raw = mixed(b"b", b"--b\r\n" + mixed(b"b", b"--b\r\n\r\none\r\n--b--\r\n") + b"--b\r\n\r\ntwo\r\n--b--\r\n")
    assert [content for _, content in leaves(raw)] == [b"one"]


def test_parts_of_a_digest_are_messages() -> None:  # RFC 2046, 5.1.5
    raw = b"Content-Type: multipart/digest; boundary=d\r\n\r\n--d\r\n\r\nSubject: y\r\n\r\none\r\n--d--\r\n"
    assert leaves(raw) == [("message/rfc822", b"Subject: y\r\n\r\none")]


def test_a_message_within_is_a_leaf_whatever_its_transfer_encoding() -> None:
    inner = b"Content-Type: multipart/mixed; boundary=i\r\n\r\n--i\r\n\r\none\r\n--i--"
    raw = mixed(b"o", b"--o\r\nContent-Type: message/rfc822\r\n\r\n" + inner + b"\r\n--o--")
    assert leaves(raw) == [("message/rfc822", inner)]
    raw = b"Content-Type: message/delivery-status\r\nContent-Transfer-Encoding: base64\r\n\r\nQWN0aW9uOiBmYWlsZWQ="
    assert leaves(raw) == [("message/delivery-status", b"Action: failed")]


def test_what_names_no_type_is_plain_text() -> None:  # RFC 2045, 5.2
    assert leaves(b"Content-Type: nonsense\r\n\r\none") == [("text/plain", b"one")]
    assert leaves(b"\r\none") == [("text/plain", b"one")]


def test_empty_lines_before_the_header_fields_are_passed_over() -> None:
    mail = parse(b"\r\n\nSubject: x\r\n\r\none", ParseLimits())
    assert (mail.subject, mail.body_text) == ("x", "one")


def test_the_text_of_html_by_its_own_charset() -> None:
    html = '<meta charset="koi8-r"><p>привет</p>'.encode("koi8-r")
    root = tree(b"Content-Type: text/html\r\n\r\n" + html)
    assert root.text().endswith("<p>привет</p>")
    root = tree(b"Content-Type: text/html; charset=koi8-r\r\n\r\n" + html.replace(b"koi8-r", b"utf-8!"))
    assert root.text().endswith("<p>привет</p>")
