"""Structured logs of our programs: one JSON object a line, with record id, tenant and trace id where the line has them.

No bodies, addresses or secrets: what PostgreSQL and SQLAlchemy add to an error about the row at hand is cut out.
"""

import logging
import re
import sys
from typing import TYPE_CHECKING, Any

from messaging import tenancy

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

#: What a driver's error says about the row and the parameters at hand.
_ROW_CONTENT = re.compile(
    r"\n?DETAIL:.*?"
    r"(?=\n(?:HINT:|CONTEXT:|LINE \d|\[SQL|\[param|\(Background|Traceback|The above|During| +File|[\w.]+: )|\Z)"
    r"|\n?\[parameters: .*?\](?=\n|\Z)",
    re.DOTALL,
)


def configure(level: int | str | None = None, logfile: str | None = None) -> None:
    """Send the process' logs to standard error, or to `logfile`, as JSON; replaces what was configured before."""
    import structlog  # takes memory and time of those who only import `tasks`, to publish

    handler: logging.Handler = logging.FileHandler(logfile) if logfile else logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level or logging.INFO)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            *_shared(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def formatter() -> logging.Formatter:
    """What turns a record of the standard library, structlog's among them, into one line."""
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_shared()],
    )


def _shared() -> "list[Processor]":
    import structlog

    return [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        _add_context,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _without_row_content,
    ]


def _add_context(_logger: Any, _method: str, event: "EventDict") -> "EventDict":
    """The tenant, trace and request that the running code acts for, unless the line names its own."""
    context = tenancy.current()
    if context.tenant_id is not None:
        event.setdefault("tenant_id", context.tenant_id)
    if context.trace_id is not None:
        event.setdefault("trace_id", context.trace_id)
    if context.request_id is not None:
        event.setdefault("request_id", context.request_id)
    # Celery puts a task's name, arguments and result here.
    event.pop("data", None)
    return event


def _without_row_content(_logger: Any, _method: str, event: "EventDict") -> "EventDict":
    for key, value in event.items():
        if isinstance(value, str) and ("DETAIL:" in value or "[parameters: " in value):
            event[key] = _ROW_CONTENT.sub("", value)
    return event
