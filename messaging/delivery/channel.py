"""What mail and SMS each fill in: their table, how a record is prepared and how it is sent.

Claim, dispatch, outcome, retry, sweep and the rest exist once and know a channel only by this protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Table

from messaging.delivery.gate import Gate
from messaging.delivery.recipients import RecipientResult
from messaging.sandbox.captured import Composed
from messaging.suppression import Subject

#: Label of who takes a message while that is not known: not prepared yet, or its configuration is gone.
UNKNOWN_PROVIDER = "unknown"


@dataclass(slots=True)
class Claim:
    """One record that a worker has won: what it holds and by which version and token it may be moved."""

    record_id: int
    version: int
    token: int
    tenant_id: int
    #: Retries spent before this attempt.
    retry_count: int
    #: Every column of the row, prepared fields filled in as they are written back.
    content: dict[str, Any]
    #: Boot seconds from before the claim statement was sent.
    claimed_at: float
    #: Who takes the message, as `Channel.provider` says it; a channel that finds its configuration gone sets it back.
    provider: str = UNKNOWN_PROVIDER

    @property
    def key(self) -> tuple[int, int]:
        """Record id and token: names this claim among all that there ever were of the record."""
        return self.record_id, self.token

    @property
    def attempt_no(self) -> int:
        """Number of this attempt in the attempt log."""
        return self.retry_count + 1

    @property
    def is_prepared(self) -> bool:
        """Whether a retry: everything that is sent is on the record already."""
        return self.content["prepared_at"] is not None

    @property
    def results(self) -> Mapping[str, Mapping[str, Any]]:
        """Recipient results recorded so far; empty where a channel keeps none."""
        results: Mapping[str, Mapping[str, Any]] = self.content.get("recipient_results") or {}
        return results


@dataclass(frozen=True, slots=True)
class RateLimits:
    """How many messages a server or provider configuration takes; at least one of the two limits is on."""

    #: The configuration's owner: all who share it share its windows.
    owner_tenant_id: int
    config_id: int
    #: None or below 1: no limit.
    daily: int | None
    per_minute: int | None


class Channel(Protocol):
    """One kind of message."""

    @property
    def name(self) -> str:
        """`mail` or `sms`: the label in metrics, logs and the attempt log."""

    @property
    def queue(self) -> str:
        """The worker queue."""

    @property
    def table(self) -> Table:
        """The send record's table."""

    @property
    def prepared_columns(self) -> tuple[str, ...]:
        """Columns that `prepare` may fill, `prepared_at` among them."""

    @property
    def monthly_default(self) -> int | None:
        """Messages a month of a quota bucket without a limit of its own; None is unlimited."""

    def provider(self, content: Mapping[str, Any]) -> str:
        """Label of who takes a record with these columns, e.g. `smtp`; `unknown` where that is open. No I/O."""

    def load(self, claims: Sequence[Claim]) -> None:
        """Read what preparing and sending these records will need, one query for each kind of it.

        Raises what the driver raises.
        """

    def subject(self, content: Mapping[str, Any]) -> Subject:
        """What of a record with these columns the suppression list is asked about, before every attempt. No I/O.

        Called after `load`. It names all `recipients`. Asked for once more with what `prepare` found, where the list
        has anything: who the message is from may be open before.
        """

    def prepare(self, claim: Claim) -> Mapping[str, Any]:
        """First attempt only: values for some `prepared_columns`; None leaves a column as it is. No I/O.

        Raises: PreparationError.
        """

    def recipients(self, content: Mapping[str, Any]) -> Sequence[str]:
        """Envelope recipients of a record, without repetition."""

    def config_id(self, claim: Claim) -> int | None:
        """Which server or provider configuration a prepared record uses."""

    def rate_limits(self, claim: Claim) -> RateLimits | None:
        """The limits of the configuration a prepared record uses, which `load` has read; None when it has none.

        Raises: PreparationError, when that is gone.
        """

    def send(self, claim: Claim, recipients: Sequence[str], gate: Gate) -> Mapping[str, RecipientResult]:
        """Send to these recipients; a result for each of them. No transaction is open, no connection is held.

        Raises: DeliveryError when the attempt failed as a whole, PreparationError when what was prepared cannot be
        used any more, ClaimTooOld from the gate, SendDeferred when it must wait for another message that is being sent.
        """

    def compose(self, claim: Claim, gate: Gate) -> Composed:
        """What `send` would give its transport, for sandbox mode; nothing leaves.

        Raises: as `send`, but for what the other side says.
        """

    def redirected(self, content: Mapping[str, Any], recipients: Sequence[str], to: str) -> Mapping[str, Any]:
        """Changed columns of a prepared record, for sandbox mode: it goes to `to` alone and tells whom it is for.

        Asked of a channel that `SANDBOX__REDIRECT_TO` has a recipient for. No I/O.
        """
