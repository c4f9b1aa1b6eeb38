"""Writes the pages of docs/reference from the code; `make docs` runs it, and a test compares what is committed.

Each page is a function that answers its text. What stands on a page is said once, in the code: in the comments above
settings and members of enums, in docstrings, in the help of commands and in the API's own description.
"""

import argparse
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import messaging
from messaging import metrics
from messaging.category import MARKER_CATEGORY, ErrorCategory, MarkerCode
from messaging.cli.entry import app
from messaging.delivery.announcing import EventType
from messaging.delivery.cancel import CancelAnswer
from messaging.delivery.checking import FindingCode
from messaging.delivery.dead_letter_kinds import DeadLetterSource, DeadLetterStatus
from messaging.delivery.poison import PoisonType
from messaging.delivery.recipients import RecipientStatus
from messaging.delivery.status import SendStatus
from messaging.http.client import HttpFault
from messaging.mail.smtp_replies import FaultCode
from messaging.receive.vocabulary import (
    BounceKind,
    BounceReason,
    LinkStatus,
    MailType,
    ReceivedFlag,
    ReceivedStatus,
    TruncationReason,
)
from messaging.requests import SuppressionReason
from messaging.settings import Settings
from messaging.sms.models import DeliveryStatus

#: Where the pages are.
REFERENCE = Path(__file__).resolve().parent / "reference"

#: The first line of each page, not shown.
MADE = "<!-- Made from the code by `make docs`: change the code's words, not this page. -->\n"


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    made = {
        "settings.md": settings_page(),
        "statuses.md": statuses_page(),
        "codes.md": codes_page(),
        "metrics.md": metrics_page(),
        "commands.md": commands_page(),
        "http-api.md": http_api_page(),
        "python.md": python_page(),
    }
    return {name: MADE + "\n" + text.rstrip("\n") + "\n" for name, text in made.items()}


# What the code says


def comments(of: type) -> dict[str, str]:
    """The `#:` lines above each field or member of a class, in one line each."""
    found, above = {}, []
    for line in inspect.getsource(of).splitlines():
        stripped = line.strip()
        if stripped.startswith("#:"):
            above.append(stripped.removeprefix("#:").strip())
        elif match := re.match(r"    (\w+)(?::| =)", line):
            found[match[1]] = " ".join(above)
            above = []
        elif not stripped.startswith("#"):
            above = []
    return found


def first_sentence(docstring: str | None) -> str:
    """Of a docstring, in one line, with its end."""
    paragraph = " ".join((inspect.cleandoc(docstring or "").split("\n\n")[0]).split())
    return re.split(r"(?<=\.)\s", paragraph)[0]


def cell(text: str) -> str:
    """Text that stands in a table: no line break, no bar, nothing that is taken for a tag."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()).replace("|", "\\|"))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def table(*rows: tuple[str, ...]) -> str:
    """A table; the first row is its head."""
    head, *rest = [tuple(cell(one) for one in row) for row in rows]
    lines = [head, tuple("---" for _ in head), *rest]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def members(of: type[Enum]) -> str:
    """A table of an enum's values with what is said above each."""
    said = comments(of)
    return table(("value", "meaning"), *((f"`{one.value}`", said[one.name]) for one in of))


# Settings


def settings_page() -> str:
    """Every setting with its default and meaning, by area."""
    parts = [
        "# Settings\n",
        "Environment variables with the prefix `MESSAGING_`. A value that cannot be used, or two that contradict each",
        "other, stop the start with the name, what was given and what is allowed.\n",
        "Which of them to turn for more throughput, and which never to touch alone: [Tuning](../tuning.md).\n",
        settings_table("", Settings),
    ]
    for prefix, model in areas(Settings, ""):
        parts += [f"## {prefix.removesuffix('__').replace('__', ', ')}\n", first_sentence(model.__doc__) + "\n"]
        parts.append(settings_table(prefix, model))
    return "\n".join(parts)


def areas(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """The areas below a model that have settings of their own, in order, each with its prefix."""
    for name, field in model.model_fields.items():
        area = area_of(field)
        if area is not None:
            below = f"{prefix}{name.upper()}__"
            if any(area_of(one) is None for one in area.model_fields.values()):
                yield below, area
            yield from areas(area, below)


def area_of(field: FieldInfo) -> type[BaseModel] | None:
    """The further settings that a field holds; None for a setting."""
    kind: Any = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def settings_table(prefix: str, model: type[BaseModel]) -> str:
    """The settings of one area, without those of areas below it."""
    said = comments(model)
    rows = [
        (f"`MESSAGING_{prefix}{name.upper()}`", default(field), said[name])
        for name, field in model.model_fields.items()
        if area_of(field) is None
    ]
    return table(("name", "default", "meaning"), *rows)


def default(field: FieldInfo) -> str:
    """A setting's default as it would be written in the environment."""
    if field.is_required():
        return "required"
    if field.default is None:
        return "none"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return str(field.default or "empty").removesuffix(".0")


# Statuses and codes


def statuses_page() -> str:
    """The closed sets of words by which records are described."""
    sections: list[tuple[str, str, type[Enum]]] = [
        ("Send records", "`status` of a mail, a text message or a webhook delivery.", SendStatus),
        ("Recipients of a mail", "What is known of each recipient of a record.", RecipientStatus),
        ("Receipts of text messages", "`delivery_status`: what the provider's receipts made of it.", DeliveryStatus),
        ("Answers of cancel", "What `cancel` answers.", CancelAnswer),
        ("Webhook events", "`type` of an event.", EventType),
        ("Suppression", "Why an address or a number is on the list.", SuppressionReason),
        ("Dead letters: source", "Where a dead letter comes from.", DeadLetterSource),
        ("Dead letters: status", "What an operator said to it.", DeadLetterStatus),
        ("Dead letters: broker messages", "`event_type` of a message that no worker could process.", PoisonType),
        ("Received mail: type", "Exactly one for each mail.", MailType),
        ("Received mail: flags", "What is true of a mail beside its type.", ReceivedFlag),
        ("Received mail: status", "What a reader has done with it.", ReceivedStatus),
        ("Received mail: link", "Whether it is tied to the record it is about.", LinkStatus),
        ("Received mail: not whole", "Why a stored mail is not whole.", TruncationReason),
        ("Bounces: kind", "How a delivery ended for one recipient.", BounceKind),
        ("Bounces: reason", "Why it failed or waits.", BounceReason),
    ]
    parts = ["# Statuses\n", "How a record moves between them: [Concepts](../concepts.md).\n"]
    for title, words, kind in sections:
        parts += [f"## {title}\n", words + "\n", members(kind)]
    return "\n".join(parts)


def codes_page() -> str:
    """Error categories, marker codes and the codes of faults."""
    said = comments(MarkerCode)
    markers = [
        (f"`{code.value}`", f"`{MARKER_CATEGORY[code].value}`" if code in MARKER_CATEGORY else "", said[code.name])
        for code in MarkerCode
    ]
    categories = comments(ErrorCategory)
    kinds = [(f"`{c.value}`", "yes" if c.is_retryable else "no", categories[c.name]) for c in ErrorCategory]
    return "\n".join(
        [
            "# Error codes\n",
            "`error_code` of a record says why its last attempt stopped, `error_category` what that means for another",
            "one. Codes of the other side are its own words: `SMTP_550_5.1.1` is reply code 550 with the enhanced code",
            "5.1.1, and a provider's codes are as it gives them.\n",
            "## Categories\n",
            table(("category", "retried", "meaning"), *kinds),
            "## Marker codes\n",
            "Set by this system itself, without the other side having said anything. One without a category ends no",
            "attempt.\n",
            table(("code", "category", "meaning"), *markers),
            "## Faults of a connection to a mail server\n",
            members(FaultCode),
            "## Faults of a call over HTTP\n",
            "Of a provider of text messages, or of a webhook's endpoint.\n",
            members(HttpFault),
            "## Findings of check\n",
            "Of `messaging.check` and `/check`, beside the marker codes.\n",
            members(FindingCode),
        ]
    )


# Metrics


def metrics_page() -> str:
    """Every metric with its kind, labels and meaning."""
    made = metrics._make_metrics()
    rows = []
    for field in fields(made):
        metric = getattr(made, field.name)
        described = next(iter(metric.describe()))
        name = described.name + ("_total" if described.type == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)
        function = getattr(metrics, field.name, None) or getattr(metrics, field.name.removesuffix("_seconds"), None)
        said = inspect.cleandoc(function.__doc__).replace("\n", " ") if function else described.documentation + "."
        rows.append((f"`{name}`", described.type, labels, said))
    return "\n".join(
        [
            "# Metrics\n",
            "In Prometheus' format at `/metrics` of `messaging web` and at `METRICS__PORT` of a worker, both for all",
            "processes of the host that share `METRICS__DIRECTORY`. No label holds a tenant, an address or a record's",
            "id. Alert rules are in `ops/prometheus/alerts.yml`, a dashboard in `ops/grafana/messaging.json`;",
            "what each alert asks of you is in [A bad night](../operating.md#a-bad-night).\n",
            table(("name", "kind", "labels", "meaning"), *rows),
        ]
    )


# Commands


def commands_page() -> str:
    """Every command with its help, arguments and options."""
    parts = [
        "# Commands\n",
        "A refused input is one line and exit code 2. A secret is asked for or read (`--password-from`), never an",
        "argument. `messaging COMMAND --help` shows the same.\n",
    ]
    for path, command in commands(typer.main.get_command(app), ()):
        usage = " ".join(["messaging", *path, *filter(None, map(as_usage, command.params))])
        parts += [f"## messaging {' '.join(path)}\n", f"`{usage}`\n", inspect.cleandoc(command.help or "") + "\n"]
        rows = [(option_names(one), getattr(one, "help", None) or "") for one in command.params]
        if rows:
            parts.append(table(("option", "meaning"), *rows))
    return "\n".join(parts)


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands below one, in the program's order."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, one in below.items():
        yield from commands(one, (*path, name))


def as_usage(parameter: Any) -> str:
    """How a parameter stands in the line of usage; options that may be left out do not."""
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        return name if parameter.required or name.startswith("[") else f"[{name}]"
    return f"{parameter.opts[0]} {parameter.metavar or 'TEXT'}" if parameter.required else ""


def option_names(parameter: Any) -> str:
    """An option's names with what it takes, an argument's placeholder."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = [*parameter.opts, *parameter.secondary_opts]
    takes = "" if parameter.is_flag else f" {parameter.metavar or 'TEXT'}"
    return ", ".join(f"`{name}{takes}`" for name in names)


# HTTP


def http_api_page() -> str:
    """Every operation of the API, by resource."""
    from fastapi import FastAPI

    from messaging.web.api.application import describe
    from messaging.web.api.router import RESOURCES

    api = FastAPI(title="messaging", version="1", openapi_url=None)
    for resource in RESOURCES:
        api.router.routes.extend(resource.routes)
    groups: dict[str, list[tuple[str, ...]]] = {}
    for path, operations in describe(api)["paths"].items():
        group = "/".join(path.split("/")[3:5] if path.split("/")[3] in ("mail", "sms") else path.split("/")[3:4])
        for method, operation in operations.items():
            said = operation.get("description") or operation.get("summary") or ""
            groups.setdefault(group, []).append((f"`{method.upper()}`", f"`{path}`", first_sentence(said)))
    parts = [
        "# HTTP API\n",
        "What each operation takes and answers is in `/api/v1/openapi.json` of a running `messaging web`. How callers",
        "prove who they are, and how errors look: [Sending over HTTP](../sending/http.md).\n",
    ]
    for group, rows in groups.items():
        parts += [f"## {group}\n", table(("", "path", "what it does"), *rows)]
    return "\n".join(parts)


# Python


def python_page() -> str:
    """The public names of the package."""
    calls, kinds = [], []
    for name in sorted(messaging.__all__):
        value = getattr(messaging, name)
        if inspect.isclass(value):
            kinds.append((f"`{name}`", first_sentence(value.__doc__)))
        elif callable(value):
            calls.append((f"`{name}`", first_sentence(value.__doc__)))
    return "\n".join(
        [
            "# Python names\n",
            "What `import messaging` offers; `help(messaging.send_mail)` says the rest of each: arguments, units,",
            "transactions, what is raised. Everything else in the package may change without notice.\n",
            "## Functions\n",
            table(("name", "what it does"), *calls),
            "## Classes\n",
            table(("name", "what it is"), *kinds),
        ]
    )


def main() -> None:
    """Write the pages that differ."""
    argparse.ArgumentParser(description="Write docs/reference from the code.").parse_args()
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    main()
