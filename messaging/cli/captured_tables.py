"""How the command line shows captured messages to people; nothing decided here."""

from collections.abc import Sequence

from rich.text import Text

from messaging.sandbox.captured import Captured, CapturedLine
from messaging.terminal import console_for_people, table, time_text


def print_captured(lines: Sequence[CapturedLine], next_before: int | None) -> None:
    """`messaging captured list`."""
    console = console_for_people()
    if not lines:
        console.print("nothing was captured")
        return
    shown = table("id", "captured", "channel", "record", "from", "to", "subject")
    for line in lines:
        shown.add_row(
            str(line.id),
            time_text(line.captured_at),
            line.channel,
            str(line.record_id),
            Text(line.sender or ""),
            Text(", ".join(line.recipients)),
            Text(line.subject or ""),
        )
    console.print(shown)
    if next_before is not None:
        console.print(f"older ones: --before {next_before}")


def print_captured_message(message: Captured) -> None:
    """`messaging captured show`."""
    console = console_for_people()
    console.print(Text(f"captured {message.id}  ", style="bold"), f"{message.channel}", sep="")
    told = {
        "record": str(message.record_id),
        "captured": time_text(message.captured_at),
        "from": message.sender,
        "to": ", ".join(message.recipients),
        "subject": message.subject,
        **{name.replace("_", " "): None if value is None else str(value) for name, value in _details(message)},
    }
    for label, value in told.items():
        if value:
            console.print(Text(f"{label:>20}  ", style="dim"), Text(value), sep="", soft_wrap=True)
    body = message.content if message.raw is None else message.raw.decode("utf-8", "replace")
    if body:
        console.print()
        console.print(Text(body), soft_wrap=True)


def _details(message: Captured) -> Sequence[tuple[str, object]]:
    return list((message.details or {}).items())
