"""How the command line shows pruning to people; nothing decided here."""

from collections.abc import Sequence

from messaging.retention.prune import Pruned, PruneLine
from messaging.terminal import console_for_people, table, time_text


def print_pruned(pruned: Sequence[Pruned], *, is_dry: bool) -> None:
    """`messaging prune`."""
    console = console_for_people()
    if not pruned:
        console.print("no kind has an age: set MESSAGING_RETENTION__*_DAYS")
        return
    shown = table("what", "would go" if is_dry else "rows", "" if is_dry else "done")
    for one in pruned:
        shown.add_row(one.name, str(one.rows), "" if is_dry else ("yes" if one.is_done else "the next run goes on"))
    console.print(shown)


def print_progress(lines: Sequence[PruneLine]) -> None:
    """`messaging prune --progress`."""
    shown = table("what", "days", "up to id", "rows", "begun", "ended")
    for line in lines:
        shown.add_row(
            line.name,
            "kept" if line.days is None else f"{line.days:g}",
            str(line.last_id or ""),
            str(line.pruned or ""),
            time_text(line.started_at),
            time_text(line.finished_at),
        )
    console_for_people().print(shown)
