"""What the demo shows: steps, a live table of states with progress, and at the end what each message became and why."""

import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from messaging.delivery.status import SendStatus
from messaging.demo.answers import Answer
from messaging.demo.evidence import Ending, Row
from messaging.demo.shop import ANSWERS, Accepted, Fate
from messaging.demo.text_evidence import TextEnding
from messaging.sms.models import DeliveryStatus
from messaging.terminal import STATUS_STYLE, console_for_people, status_text, table

#: Lines of news under the table.
NEWS_LINES = 8
#: Without a terminal: seconds between two lines of progress.
PLAIN_INTERVAL_SECONDS = 1.0

_RECEIPT_STYLE = {
    DeliveryStatus.DELIVERED: "green",
    DeliveryStatus.UNDELIVERED: "yellow",
    DeliveryStatus.FAILED: "red",
}
_ANSWER_STYLE = {Answer.BOUNCED: "red", Answer.READ: "green", Answer.REPLIED: "yellow"}
_ROLLED_BACK = "its order was rolled back, and it with it"


class Display:
    """Standard output; a table that changes on a terminal, lines of progress elsewhere."""

    def __init__(self, total: int, began_at: float) -> None:
        """`total` records are to end; `began_at` is a reading of `time.monotonic()`."""
        self.console: Console = console_for_people()
        self._total = total
        self._began_at = began_at
        self._live: Live | None = None
        self._news: deque[Text] = deque(maxlen=NEWS_LINES)
        self._seen: dict[int, Row] = {}
        self._printed: tuple[float, str] = (0.0, "")

    @property
    def elapsed_seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began_at

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def say(self, words: str) -> None:
        """One step, with the time since the beginning."""
        line = Text(f"{self.elapsed_seconds:5.1f} s  {words}")
        if self._live is not None:
            self._news.append(line)
        else:
            self.console.print(line, soft_wrap=True)

    def print_line(self, words: str) -> None:
        """A line as it is."""
        self.console.print(words, soft_wrap=True, markup=False)

    def update(self, accepted: Sequence[Accepted], rows: Mapping[int, Row]) -> None:
        """Show where the records stand now."""
        self._note_changes(accepted, rows)
        ended = sum(row.has_ended for row in rows.values())
        if self._live is not None:
            bar = Table.grid(padding=(0, 1))
            bar.add_row(
                ProgressBar(total=self._total, completed=ended, width=50), f"{ended} of {self._total} have ended"
            )
            self._live.update(Group(_states(accepted, rows), bar, "", *self._news), refresh=True)
            return
        counts = Counter(row.status for row in rows.values())
        is_time = ended == self._total or self.elapsed_seconds - self._printed[0] >= PLAIN_INTERVAL_SECONDS
        told = ", ".join(f"{counts[status]} {status}" for status in SendStatus if counts[status])
        if told != self._printed[1] and is_time:
            self._printed = (self.elapsed_seconds, told)
            self.say(f"{ended} of {self._total} have ended: {told}")

    def _note_changes(self, accepted: Sequence[Accepted], rows: Mapping[int, Row]) -> None:
        messages = {each.mail_id: f"mail {each.mail_id} to {each.order.address}" for each in accepted}
        for each in accepted:
            if each.text_id is not None:
                messages[each.text_id] = f"text message {each.text_id} to {each.order.phone_number}"
        for record_id, row in rows.items():
            if row != self._seen.get(record_id) and self._live is not None and row.status is not SendStatus.PENDING:
                retries = f" after {row.retry_count} retries" if row.retry_count else ""
                self._news.append(
                    Text.assemble(
                        f"{self.elapsed_seconds:5.1f} s  {messages[record_id]}: ",
                        _state(row.status, row.delivery_status, row.answer),
                        retries,
                    )
                )
        self._seen = dict(rows)

    def conclude(self, endings: Sequence[Ending], texts: Sequence[TextEnding]) -> None:
        """The closing table."""
        shown = table("order", "record", "shop", "to", "became", "attempts", "copies", "why")
        by_order = {text.accepted.order.number: text for text in texts}
        for ending in endings:
            shown.add_row(*_ending(ending))
            if (text := by_order.get(ending.accepted.order.number)) is not None:
                shown.add_row(*_text_ending(text))
        self.console.print(shown)


def _states(accepted: Sequence[Accepted], rows: Mapping[int, Row]) -> Table:
    """How many mails of each kind, and text messages, are in each state."""
    shown = table("messages", *SendStatus, "no record")
    for column in shown.columns[1:]:
        column.justify = "right"
    kinds = {fate.value: [each.mail_id for each in accepted if each.order.fate is fate] for fate in Fate}
    kinds["text messages"] = [each.text_id for each in accepted if each.text_id is not None]
    for kind, ids in kinds.items():
        counts = Counter(rows[i].status for i in ids if i in rows)
        cells = [Text(str(counts[s]) if counts[s] else "", style=STATUS_STYLE[s]) for s in SendStatus]
        missing = sum(i not in rows for i in ids)
        shown.add_row(kind, *cells, str(missing or ""))
    return shown


def _ending(ending: Ending) -> tuple[str | Text, ...]:
    order, story = ending.accepted.order, ending.story
    why = _ROLLED_BACK if story is None else story.why
    if story is not None and story.read_receipt_received_at is not None:
        why += f"; read at {story.read_receipt_received_at.astimezone():%H:%M:%S}"
    if order.fate is Fate.AWAY:
        why += "; an automatic answer came, which says nothing of the delivery"
    if order.fate is Fate.KILLED and ending.copies > 1:
        why += "; the worker was killed before it heard that the first was taken: the repeat has the same Message-ID"
    return (
        str(order.number),
        str(ending.accepted.mail_id),
        order.seller.name,
        order.address,
        _state(None if story is None else story.status, answer=None if ending.wrong else ANSWERS.get(order.fate)),
        "" if story is None else str(len(story.attempts)),
        str(ending.copies),
        _why(ending.wrong, why),
    )


def _text_ending(ending: TextEnding) -> tuple[str | Text, ...]:
    order, status = ending.accepted.order, ending.status
    if status is None:
        why = _ROLLED_BACK
    elif status.sent_at is None:
        why = f"{status.error_code}: {status.error_message}"
    else:
        why = f"taken by {status.provider_type}; its signed receipts say what became of it"
    return (
        str(order.number),
        str(ending.accepted.text_id),
        order.seller.name,
        order.phone_number,
        _state(None) if status is None else _state(status.status, status.delivery_status),
        "" if status is None else str(status.retry_count + 1),
        str(ending.copies),
        _why(ending.wrong, why),
    )


def _state(status: SendStatus | None, receipt: DeliveryStatus | None = None, answer: Answer | None = None) -> Text:
    """A record's status, and what receipts or mails that came back said of it."""
    if status is None:
        return Text("no record", style="dim")
    if answer is not None:
        return Text.assemble(status_text(status), " ", (answer.upper(), _ANSWER_STYLE[answer]))
    if receipt is None or receipt is DeliveryStatus.UNKNOWN:
        return status_text(status)
    return Text.assemble(status_text(status), " ", (receipt, _RECEIPT_STYLE[receipt]))


def _why(wrong: str, why: str) -> Text:
    return Text(f"WRONG: {wrong}", style="bold red") if wrong else Text(why)
