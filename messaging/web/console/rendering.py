"""Templates of the console: everything is escaped, a name that is missing is an error, and what times look like."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from messaging.delivery.status import SendStatus
from messaging.web.console.assets import Assets

_FOLDER = Path(__file__).parent / "templates"

#: What people call a state.
STATUS_WORDS = {
    SendStatus.PENDING: "Pending",
    SendStatus.SENDING: "Sending",
    SendStatus.RETRY: "Retry",
    SendStatus.SENT: "Sent",
    SendStatus.FAILED: "Failed",
    SendStatus.DEAD_LETTER: "Dead letter",
}


def environment(assets: Assets) -> Environment:
    """The templates, compiled when they are first used and then kept."""
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["asset"] = assets.path
    made.filters |= {"when": when, "seconds": seconds, "word": word, "some": some, "plain_json": plain_json}
    return made


def when(at: datetime | None) -> Markup:
    """A moment in UTC to the second; the script adds what it is here and how long ago."""
    if at is None:
        return Markup('<span class="none">–</span>')
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        utc.isoformat(timespec="seconds").replace("+00:00", "Z"), f"{utc:%Y-%m-%d %H:%M:%S}"
    )


def seconds(duration: timedelta | None) -> str:
    """How long something took."""
    if duration is None:
        return "–"
    taken = duration.total_seconds()
    return f"{taken:.0f} s" if taken >= 100 else f"{taken:.2f} s"


def word(status: str) -> str:
    """What people call a state or another constant of ours."""
    return STATUS_WORDS.get(status) or status.replace("_", " ").capitalize()  # type: ignore[call-overload]


def some(values: Iterable[Any], most: int = 2) -> str:
    """The first values, and how many more there are."""
    shown = [str(value) for value in values]
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {more} more" if more > 0 else "")


def plain_json(value: Any) -> str:
    """A value as people read it."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
