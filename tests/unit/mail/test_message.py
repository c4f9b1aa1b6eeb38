"""A message in pieces: counted, read again, and stuffed the same however it is cut (RFC 5321 section 4.5.2)."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.mail.message import Message, SourceFailed
from messaging.mail.smtp_wire import NotCrlf, Outgoing


class Cut:
    """Octets that are read in the given chunks."""

    def __init__(self, *chunks: bytes, size: int | None = None, error: OSError | None = None) -> None:
        self._chunks = chunks
        self._error = error
        self.size = sum(map(len, chunks)) if size is None else size

    def chunks(self) -> Iterator[bytes]:
        yield from self._chunks
        if self._error is not None:
            raise self._error


def sent(message: Message) -> bytes:
    return b"".join(Outgoing.of(message).pieces())


def test_a_message_is_counted_before_it_is_read_and_read_again() -> None:
    message = Message((b"Subject: x\r\n\r\n", Cut(b"ab", b"cd\r\n"), b"e\r\n"))
    assert message.size == 14 + 6 + 3
    assert message.whole is None
    assert b"".join(message.chunks()) == b"".join(message.chunks()) == b"Subject: x\r\n\r\nabcd\r\ne\r\n"


def test_fields_before_a_message_are_part_of_it() -> None:
    octets = b"Subject: x\r\n\r\nbody\r\n"
    for message in (Message.of(octets), Message((Cut(octets),)), Message((octets[:5], Cut(octets[5:])))):
        signed = message.after(b"DKIM-Signature: s\r\n")
        assert b"".join(signed.chunks()) == b"DKIM-Signature: s\r\n" + octets
        assert signed.size == message.size + 19
        assert (signed.whole is None) == (message.whole is None)


def test_an_eighth_bit_is_seen_where_the_octets_are_at_hand() -> None:
    assert Message((b"a", Cut(b"b"))).is_ascii
    assert not Message(("To: jörg@x.com\r\n".encode(), Cut(b"b"))).is_ascii


@pytest.mark.parametrize(
    "piece",
    [
        Cut(b"ab", size=3),
        Cut(b"ab", size=1),
        Cut(b"ab", b"c", size=2),
        Cut(b"ab", error=OSError(5, "Input/output error")),
    ],
)
def test_a_piece_that_is_not_what_it_said_fails(piece: Cut) -> None:
    with pytest.raises(SourceFailed):
        list(Message((b"x\r\n", piece)).chunks())


OCTETS = st.lists(st.sampled_from([b"\r\n", b".", b"..", b"a", b"\r\n.\r\n", b"bc "]), max_size=30).map(b"".join)


@given(OCTETS, st.data())
def test_a_message_is_stuffed_the_same_however_it_is_cut(octets: bytes, data: st.DataObject) -> None:
    ends = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=12)))
    chunks = [octets[start:end] for start, end in zip([0, *ends], [*ends, len(octets)], strict=True)]
    whole = Message.of(octets or b"\r\n")
    if not octets:
        assert sent(Message((Cut(*chunks),))) == b""
        return
    assert sent(Message((Cut(*chunks),))) == sent(whole)
    assert sent(Message((chunks[0], Cut(*chunks[1:])))) == sent(whole)
    lines = sent(whole).split(b"\r\n")
    assert b"\r\n".join(line.removeprefix(b".") for line in lines) == octets.removesuffix(b"\r\n") + b"\r\n"
    assert b"." not in lines


@pytest.mark.parametrize(
    "chunks", [(b"a\r", b"b\r\n"), (b"a", b"\nb\r\n"), (b"a\r\n\r",), (b"a\r", b"\r\n"), (b"a\r\n", b"\nb")]
)
def test_a_bare_cr_or_lf_is_found_across_chunks(chunks: tuple[bytes, ...]) -> None:  # RFC 5321 2.3.8
    with pytest.raises(NotCrlf):
        sent(Message((Cut(*chunks),)))
