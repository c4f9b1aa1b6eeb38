"""Who of a chunk's recipients is on the suppression list: looked up once, after the claim; they are not contacted.

As the look-up comes after the claim, an entry that was committed before an attempt began stops it. What it finds
counts as refused for good: it closes its recipients and keeps the others waiting for nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine

from messaging import suppression
from messaging.category import MARKER_CATEGORY, MarkerCode
from messaging.delivery.channel import Channel, Claim
from messaging.delivery.recipients import RecipientResult, RecipientStatus, open_recipients
from messaging.suppression import Entry, Found, Wanted


class Suppressing:
    """The look-up of one chunk."""

    def __init__(self, engine: Engine, channel: Channel) -> None:
        self._engine = engine
        self._channel = channel
        self._found: Found = {}
        self._results: dict[int, dict[str, RecipientResult]] = {}
        #: Records by id whose recipients could not be read, and why: not looked up, so not to be sent.
        self.unread: dict[int, tuple[Claim, Exception]] = {}

    def load(self, claims: Sequence[Claim]) -> None:
        """Look up all recipients of these records that are open: one query at most. Raises what the driver raises."""
        wanted: list[Wanted] = []
        for claim in claims:
            try:
                wanted += self._channel.subject(claim.content).wanted(claim.tenant_id)
            except Exception as exc:  # noqa: BLE001 - one record's bug must not touch the others
                self.unread[claim.record_id] = claim, exc
        if not wanted:
            return
        with self._engine.connect() as connection:
            self._found = suppression.find(connection, self._channel.name, wanted)

    def is_stopped(self, claim: Claim, prepared: Mapping[str, Any] | None = None) -> bool:
        """Whether nobody is left to send to because of the list. `prepared`: columns that preparation has found.

        Asked again with those, as who a message is from may be open until then.
        """
        if not self._found or claim.record_id in self.unread:
            return False
        content = claim.content if prepared is None else {**claim.content, **_given(prepared)}
        stopped = self._channel.subject(content).stopped(claim.tenant_id, self._found)
        if not stopped:
            return False
        still_open = open_recipients(self._channel.recipients(claim.content), claim.results)
        results = {r: _result(stopped[r]) for r in still_open if r in stopped}
        if results:
            self._results[claim.record_id] = results
        return bool(results) and len(results) == len(still_open)

    def results(self, claim: Claim) -> Mapping[str, RecipientResult]:
        """The recipients of a record that this attempt must not contact."""
        return self._results.get(claim.record_id, {})


def _given(prepared: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in prepared.items() if value is not None}


def _result(entry: Entry) -> RecipientResult:
    """Names the entry, not the address, as the text is logged."""
    narrowed = f", list {entry.list}" if entry.list else ", this sender" if entry.sender else ""
    text = f"on the suppression list since {entry.created_at:%Y-%m-%d}: {entry.reason}{narrowed} (entry {entry.id})"
    marker = MarkerCode.SUPPRESSED
    return RecipientResult(RecipientStatus.SUPPRESSED, marker, text, MARKER_CATEGORY[marker])
