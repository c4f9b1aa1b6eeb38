"""Encoded words (RFC 2047; receive.md 8)."""

import pytest

from messaging.receive.encoded_words import decode_words


def raw(octets: bytes) -> str:
    """A field's value as `Headers` holds it."""
    return octets.decode("ascii", "surrogateescape")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("  plain  ", "plain"),
        ("=?utf-8?Q?caf=C3=A9?=", "café"),
        ("=?UTF-8?b?Y2Fmw6k=?=", "café"),
        ("=?iso-8859-1*fr?q?caf=E9?=", "café"),  # RFC 2231, 5
        ("=?iso-8859-1?q?a_b=5Fc?=", "a b_c"),
        # RFC 2047, 8
        ("=?ISO-8859-1?Q?a?= =?ISO-8859-1?Q?b?=", "ab"),
        ("=?ISO-8859-1?Q?a?=  \t =?ISO-8859-2?Q?b?=", "ab"),
        ("=?ISO-8859-1?Q?a_b?=", "a b"),
        ("=?ISO-8859-1?Q?a?= b", "a b"),
        ("(=?ISO-8859-1?Q?a?=)", "(a)"),
        # a character split between two words
        ("=?utf-8?Q?caf=C3?= =?utf-8?Q?=A9?=", "café"),
        ("=?utf-8?B?w6nD?= =?utf-8?Q?=A9?=", "éé"),
        ("=?utf-8?B?Y2Fmw?= =?utf-8?B?6k=?=", "café"),
        ("=?GB2312?B?1tA=?= =?GB2312?B?zsQ=?=", "中文"),
        ("=?ISO-2022-JP?B?GyRCRnxLXBsoQg==?= =?ISO-2022-JP?B?GyRCOGwbKEI=?=", "日本語"),
        # wrong padding, noise
        ("=?utf-8?B?Y2Fmw6k?=", "café"),
        ("=?utf-8?B?Y2Fmw6k===?=", "café"),
        ("=?utf-8?B?Y2Fm w6k=?=", "café"),
        ("=?utf-8?Q?caf=C3=A9 au lait?=", "café au lait"),
        ("=?utf-8?Q?100%=ZZ?=", "100%=ZZ"),
        # nothing between two words, or a word and text
        ("=?utf-8?Q?a?==?utf-8?Q?b?=", "ab"),
        ("Re:=?utf-8?Q?_a?=,b", "Re: a,b"),
        # charsets: unknown, wrong, of no text
        ("=?x-none?Q?caf=C3=A9?=", "café"),
        ("=?us-ascii?Q?caf=E9?=", "café"),
        ("=?punycode?Q?abc?=", "abc"),
        ("=?rot13?Q?abc?=", "abc"),
        # what is no encoded word stays
        ("=?utf-8?X?abc?=", "=?utf-8?X?abc?="),
        ("=?utf-8?Q?abc", "=?utf-8?Q?abc"),
        ("a =? b ?= c", "a =? b ?= c"),
        ("=?utf-8?Q??=", ""),
        ("=?utf-8?B??= x", " x".strip()),
        # unsafe to store
        ("a\x00=?utf-8?Q?b=00c?=", "abc"),
    ],
)
def test_decode_words(value: str, text: str) -> None:
    assert decode_words(value) == text


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        ("né à".encode(), "né à"),
        ("né à".encode("latin-1"), "né à"),
        ("né =?utf-8?Q?=C3=A0?= né".encode("latin-1"), "né à né"),
        ("=?utf-8?Q?né?=".encode(), "né"),
    ],
)
def test_octets_beyond_ascii(octets: bytes, text: str) -> None:
    assert decode_words(raw(octets)) == text
