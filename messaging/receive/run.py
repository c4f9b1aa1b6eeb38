"""One fetch of one mailbox: what it works with, how long it may take, what it has stored so far."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from messaging.clock import Ticker
from messaging.receive.arrival import Arrival, Reader
from messaging.receive.mailbox import Mailbox
from messaging.receive.store import Kept, Store
from messaging.receive.watermark import Watermarks
from messaging.settings import MailFetchSettings


@dataclass(slots=True)
class Run:
    """Of one thread."""

    mailbox: Mailbox
    settings: MailFetchSettings
    reader: Reader
    store: Store
    watermarks: Watermarks
    ticker: Ticker
    #: The ticker's seconds at which the time budget ends: asked between messages.
    until: float
    #: Whether the process is to end.
    is_stopping: Callable[[], bool]
    #: Mails that were not known before.
    new_count: int = 0

    @property
    def is_over(self) -> bool:
        """Whether no further message may be begun."""
        return self.is_stopping() or self.ticker() >= self.until

    def keep(self, arrivals: Iterable[Arrival]) -> Iterator[Kept]:
        """`Store.keep`, counted."""
        for kept in self.store.keep(arrivals):
            self.new_count += kept.is_new
            yield kept
