"""What is true of a mail beside its type; each detector stands alone (`receive.md` 11).

Sources: RFC 2919 and 2369 (lists), RFC 3156 and 4880 (OpenPGP), RFC 1847 and 8551 (S/MIME), SpamAssassin, Exchange.
"""

import re

from messaging.receive.classification import Classification
from messaging.receive.classify.structure import has_header, header_words, parts_of
from messaging.receive.headers import Headers
from messaging.receive.parsed import ParsedMail, Part

_LIST_HEADERS = ("List-Id", "List-Post", "Mailing-List", "X-Mailing-List", "X-Mailman-Version")
#: Without one of these, as most mails are, none is sent to several.
_OF_SEVERAL = frozenset(name.lower() for name in (*_LIST_HEADERS, "List-Unsubscribe", "Precedence"))
_SPAM_HEADERS = frozenset({"x-spam-flag", "x-spam-status", "x-ms-exchange-organization-scl"})
_PKCS7_MIME = ("application/pkcs7-mime", "application/x-pkcs7-mime")
#: RFC 8551, 3.2.2: what hides nothing.
_SIGNED_DATA = frozenset({"signed-data", "signed-receipt"})
_OPEN_DATA = _SIGNED_DATA | {"certs-only", "compressed-data"}
#: Object identifiers at the head of a CMS object (RFC 5652, 4 to 6; RFC 5083, 2), with their `smime-type`.
_CONTENT_TYPES = (
    (bytes.fromhex("06092a864886f70d010702"), "signed-data"),
    (bytes.fromhex("06092a864886f70d010703"), "enveloped-data"),
    (bytes.fromhex("060b2a864886f70d0109100117"), "authenticated-enveloped-data"),
    (bytes.fromhex("060b2a864886f70d0109100109"), "compressed-data"),
)
#: Octets of a CMS object in which its identifier stands.
_CMS_HEAD = 32
#: RFC 8551, 3.9: how a gateway that does not know the type passes it on.
_P7M_NAME = re.compile(r"\.p7m$", re.IGNORECASE)
_SCL_OF_SPAM = 5


def is_list_mail(headers: Headers) -> bool:
    """Whether a mailing list has passed it on."""
    return headers.has_any(_OF_SEVERAL) and (
        has_header(headers, *_LIST_HEADERS) or "list" in header_words(headers, "Precedence")
    )


class MailingList:
    """`mailing_list`."""

    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        return classification.with_flags(mailing_list=True) if is_list_mail(message.headers) else classification


class Bulk:
    """`bulk`: sent to many, but not by a mailing list."""

    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        headers = message.headers
        if not headers.has_any(_OF_SEVERAL):
            return classification
        is_newsletter = has_header(headers, "List-Unsubscribe") and not is_list_mail(headers)
        is_bulk = is_newsletter or bool(header_words(headers, "Precedence") & {"bulk", "junk"})
        return classification.with_flags(bulk=True) if is_bulk else classification


class Encrypted:
    """`encrypted`: PGP/MIME, an OpenPGP message in the text, S/MIME."""

    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        is_set = any(map(_is_encrypted, parts_of(message))) or _begins(message, "-----BEGIN PGP MESSAGE")
        return classification.with_flags(encrypted=True) if is_set else classification


class Signed:
    """`signed`: a signature around a part, or within the text; whether it holds is not looked at."""

    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        is_set = any(map(_is_signed, parts_of(message))) or _begins(message, "-----BEGIN PGP SIGNED MESSAGE")
        return classification.with_flags(signed=True) if is_set else classification


class Spam:
    """`spam`: a filter on the way has said so."""

    def apply(self, message: ParsedMail, classification: Classification) -> Classification:
        headers = message.headers
        if not headers.has_any(_SPAM_HEADERS):
            return classification
        is_marked = (
            any(value.strip().lower() == "yes" for value in headers.all("X-Spam-Flag"))
            or any(value.strip().lower().startswith("yes") for value in headers.all("X-Spam-Status"))
            or any(_is_high(value) for value in headers.all("X-MS-Exchange-Organization-SCL"))
        )
        return classification.with_flags(spam=True) if is_marked else classification


def _is_encrypted(part: Part) -> bool:
    if part.content_type == "multipart/encrypted":
        return True
    kind = _smime_type(part)
    return kind is not None and kind not in _OPEN_DATA


def _is_signed(part: Part) -> bool:
    return part.content_type == "multipart/signed" or _smime_type(part) in _SIGNED_DATA


def _smime_type(part: Part) -> str | None:
    """What an S/MIME part says it holds, else what it holds; empty when neither tells. None for any other part."""
    if part.content_type in _PKCS7_MIME:
        return part.parameters.get("smime-type", "").strip().lower() or _content_type(part.content) or ""
    if part.content_type == "application/octet-stream" and _P7M_NAME.search(part.file_name or ""):
        return _content_type(part.content)
    return None


def _content_type(content: bytes) -> str | None:
    head = content[:_CMS_HEAD]
    return next((name for identifier, name in _CONTENT_TYPES if identifier in head), None)


def _begins(message: ParsedMail, armour: str) -> bool:
    """Whether a text of the mail begins with this line (RFC 4880, 6.2)."""
    if message.rule_text.lstrip().startswith(armour):
        return True
    octets = armour.encode()
    for part in message.walk():
        if (
            part.content_type == "text/plain"
            and part.disposition != "attachment"
            and part.content.lstrip(b" \t\r\n\xef\xbb\xbf\xa0").startswith(octets)
        ):
            return True
    return False


def _is_high(value: str) -> bool:
    """Whether a spam confidence level is one of spam; what is no number is none."""
    try:
        return int(value) >= _SCL_OF_SPAM
    except ValueError:
        return False


#: In their order; they do not know each other.
DETECTORS = (MailingList(), Bulk(), Encrypted(), Signed(), Spam())
