"""DKIM signatures over the final bytes of a message (RFC 6376, RFC 8301, RFC 8463), read in one pass.

Fields are parsed, canonicalized and hashed by dkimpy; the body is hashed here, as dkimpy takes only a whole one, and
`cryptography` signs: dkimpy's RSA is Python integers, twenty times slower and holding up all other threads.
"""

import base64
import hashlib
import re
from datetime import datetime

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from messaging.mail.header_fields import literal_field
from messaging.mail.message import Message

#: Fewer bits than a verifier must take (RFC 8301, 3.2).
MIN_RSA_BITS = 1024
#: Named once more than they are there, so that nobody adds another one that a reader would be shown (RFC 6376, 8.15).
ALWAYS_COVERED = (
    "from",
    "to",
    "cc",
    "reply-to",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
)
#: The same, but only where the message has them: relays and lists may add their own to a message without
#: (RFC 6376, 5.4.1; RFC 8058, 4 wants the pair for unsubscribing covered).
COVERED_IF_PRESENT = (
    "in-reply-to",
    "references",
    "auto-submitted",
    "feedback-id",
    "list-id",
    "list-unsubscribe",
    "list-unsubscribe-post",
)

#: Octets of the body that are looked at in one go.
_PIECE_BYTES = 65_536
#: Characters of the signature on one line.
_SIGNATURE_LINE_CHARS = 64
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.IGNORECASE)
#: A run of blanks that is not already the one space that it becomes.
_BLANKS = re.compile(rb"[\t ]{2,}|\t")

_Key = RSAPrivateKey | Ed25519PrivateKey


class DkimConfigError(ValueError):
    """A column of the server's configuration that no signature can be made with; says nothing of the key."""

    def __init__(self, column: str, reason: str) -> None:
        #: `dkim_domain`, `dkim_selector` or `dkim_private_key`.
        self.column = column
        self.reason = reason
        super().__init__(column, reason)

    def __str__(self) -> str:
        return f"{self.column} {self.reason}"


def sign(message: Message, *, domain: str, selector: str, private_key_pem: str, signed_at: datetime) -> bytes:
    """The DKIM-Signature field of `message` (CRLF line ends), folded, with its CRLF: for `Message.after`.

    The same for each call with equal arguments. Reads the message once and keeps no more of it than its header.

    Raises: DkimConfigError; SourceFailed, where a file cannot be read.
    """
    from dkim import hash_headers, rfc822_parse  # only those who sign pay for its import
    from dkim.canonicalization import Relaxed

    _check_names(domain, selector)
    key = _private_key(private_key_pem)
    header, body_hash = _header_and_body_hash(message)
    fields, _ = rfc822_parse(header)
    covered = _covered_names([name.decode("ascii").lower() for name, _ in fields])
    tags = (
        "v=1;",
        f"a={'rsa' if isinstance(key, RSAPrivateKey) else 'ed25519'}-sha256;",
        "c=relaxed/relaxed;",
        f"d={domain.lower()};",
        f"s={selector};",
        f"t={int(signed_at.timestamp())};",
        f"h={': '.join(covered)};",
        f"bh={_base64(body_hash)};",
        "b=",
    )
    unsigned = " ".join(tags)
    hasher = hashlib.sha256()
    hash_headers(
        hasher,
        Relaxed,
        Relaxed.canonicalize_headers(fields),
        [name.encode() for name in covered],
        (b"DKIM-Signature", unsigned.encode()),
        None,
    )
    signature = _base64(_signature(key, hasher.digest()))
    lines = [signature[i : i + _SIGNATURE_LINE_CHARS] for i in range(0, len(signature), _SIGNATURE_LINE_CHARS)]
    return literal_field("DKIM-Signature", unsigned + " ".join(lines)).encode() + b"\r\n"


def check(*, domain: str, selector: str, private_key_pem: str) -> None:
    """Whether signatures can be made with these three; takes longer than `sign`, as it also checks an RSA key's sense.

    Raises: DkimConfigError.
    """
    _check_names(domain, selector)
    _private_key(private_key_pem, is_checked=True)


def public_key_record(private_key_pem: str) -> str:
    """What the TXT record of `{selector}._domainkey.{domain}` must say for this key (RFC 6376, 3.6.1).

    For RSA longer than the 255 octets of one string: a zone file has it in several, which verifiers put together.

    Raises: DkimConfigError.
    """
    key = _private_key(private_key_pem)
    if isinstance(key, RSAPrivateKey):
        kind, octets = "rsa", key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    else:
        kind, octets = "ed25519", key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return f"v=DKIM1; k={kind}; p={_base64(octets)}"


def _check_names(domain: str, selector: str) -> None:
    for column, name in (("dkim_domain", domain), ("dkim_selector", selector)):
        if not _HOST_NAME.fullmatch(name) or len(name) > 253:
            raise DkimConfigError(column, f"is {name!r}; allowed: labels of ASCII letters, digits and hyphens")


def _private_key(pem: str, *, is_checked: bool = False) -> _Key:
    # The exceptions of the parser are left out: none of them may carry a piece of the key along.
    column = "dkim_private_key"
    try:
        key = load_pem_private_key(pem.encode(), password=None, unsafe_skip_rsa_key_validation=not is_checked)
    except TypeError:
        raise DkimConfigError(column, "is protected by a passphrase; allowed: a key without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise DkimConfigError(column, "is no private key in PEM that can be read") from None
    if isinstance(key, RSAPrivateKey):
        if key.key_size < MIN_RSA_BITS:
            raise DkimConfigError(column, f"is an RSA key of {key.key_size} bits; allowed: {MIN_RSA_BITS} or more")
        return key
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise DkimConfigError(column, "is neither an RSA nor an Ed25519 key")


def _covered_names(present: list[str]) -> list[str]:
    """Each name as often as it is there, and once more."""
    names = [*ALWAYS_COVERED, *(name for name in COVERED_IF_PRESENT if name in present)]
    return [name for name in names for _ in range(present.count(name) + 1)]


def _signature(key: _Key, digest: bytes) -> bytes:
    if isinstance(key, RSAPrivateKey):
        return key.sign(digest, PKCS1v15(), Prehashed(hashes.SHA256()))
    return key.sign(digest)  # the digest is what is signed, not the text (RFC 8463, 3)


def _header_and_body_hash(message: Message) -> tuple[bytes, bytes]:
    header = b""
    body: _BodyHash | None = None
    for chunk in message.chunks():
        if body is not None:
            body.update(chunk)
            continue
        header += chunk
        end = header.find(b"\r\n\r\n")
        if end >= 0:
            body = _BodyHash()
            body.update(memoryview(header)[end + 4 :])
            header = header[: end + 2]
    return header, (body or _BodyHash()).digest()


class _BodyHash:
    """SHA-256 over a body in relaxed form (RFC 6376, 3.4.4), fed piece by piece."""

    def __init__(self) -> None:
        self._hasher = hashlib.sha256()
        #: The line that has not ended yet.
        self._rest = b""
        #: Empty lines that count only if something follows.
        self._empty_lines = 0
        #: Whether anything was hashed, the end of its last line still owed.
        self._has_text = False

    def update(self, octets: bytes | memoryview) -> None:
        for start in range(0, len(octets), _PIECE_BYTES):
            data = self._rest + bytes(octets[start : start + _PIECE_BYTES])
            end = data.rfind(b"\r\n") + 2
            if end < 2:
                self._rest = data
                continue
            self._rest = data[end:]
            self._add_lines(data[:end])

    def _add_lines(self, data: bytes) -> None:
        if b"  " in data or b"\t" in data:
            data = _BLANKS.sub(b" ", data)
        data = data.replace(b" \r\n", b"\r\n")
        # A message holds no CR or LF but in pairs.
        text = data.rstrip(b"\r\n")
        ended = (len(data) - len(text)) // 2
        if not text:
            self._empty_lines += ended
            return
        self._hasher.update(b"\r\n" * (self._empty_lines + self._has_text) + text)
        self._has_text = True
        self._empty_lines = ended - 1

    def digest(self) -> bytes:
        """Of all that came; nothing may follow."""
        if self._rest:
            self._add_lines(self._rest + b"\r\n")
        if self._has_text:
            self._hasher.update(b"\r\n")
        return self._hasher.digest()


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
