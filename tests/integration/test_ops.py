"""Alert rules and the dashboard: taken by Prometheus' own checker, over metrics and labels that there are."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from messaging import metrics
from tests.far_end import packages

OPS = Path(__file__).resolve().parents[2] / "ops"
ALERTS = OPS / "prometheus" / "alerts.yml"
DASHBOARD = OPS / "grafana" / "messaging.json"

#: What a histogram is made of.
_PARTS = re.compile(r"_(bucket|count|sum)$")


def promtool(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = packages.require("promtool")
    return subprocess.run(
        program.command(*arguments), input=given, capture_output=True, cwd=ALERTS.parent, check=False, timeout=60
    )


def told(done: subprocess.CompletedProcess[bytes]) -> str:
    return (done.stdout + done.stderr).decode()


def known() -> dict[str, set[str]]:
    """Every metric of ours, and its labels."""
    made = metrics._make_metrics()
    found = {}
    for name in metrics._Metrics.__dataclass_fields__:
        metric = getattr(made, name)
        described = next(iter(metric.describe()))
        suffix = "_total" if described.type == "counter" else ""
        found[described.name + suffix] = set(metric._labelnames)
    return found


def expressions() -> Iterator[str]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in panels():
        yield from (target["expr"] for target in panel.get("targets", ()))


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def test_the_alert_rules_load_and_speak_up_when_they_should() -> None:
    loaded = promtool("check", "rules", ALERTS.name)
    assert loaded.returncode == 0, told(loaded)
    tried = promtool("test", "rules", "alerts_test.yml")
    assert tried.returncode == 0, told(tried)


def test_what_is_shown_on_metrics_is_taken_by_prometheus() -> None:
    metrics.http_request("GET", "/api/v1/me", 200, 0.01)
    metrics.accepted("mail")
    shown = metrics.exposition()
    done = promtool("check", "metrics", given=shown)
    assert done.returncode == 0, told(done)
    assert b"messaging_http_request_seconds_bucket" in shown


def test_each_query_of_the_dashboard_is_one(tmp_path: Path) -> None:
    queries = [{"alert": f"q{i}", "expr": expr} for i, expr in enumerate(panel_queries())]
    rules = yaml.safe_dump({"groups": [{"name": "dashboard", "rules": queries}]})
    (tmp_path / "queries.yml").write_text(rules)
    done = promtool("check", "rules", str(tmp_path / "queries.yml"))
    assert done.returncode == 0, told(done)
    assert f"{len(queries)} rules found" in told(done)


def panel_queries() -> list[str]:
    found = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    return [expr.replace("$__rate_interval", "5m").replace("$channel", "mail") for expr in found]


def test_rules_and_dashboard_name_metrics_and_labels_that_there_are() -> None:
    metrics_known = known()
    used = set()
    for expression in expressions():
        for name in re.findall(r"\bmessaging_\w+", expression):
            base = name if name in metrics_known else _PARTS.sub("", name)
            assert base in metrics_known, name
            used.add(base)
        labels = {*re.findall(r"by \(([^)]*)\)", expression)}
        named = {label.strip() for group in labels for label in group.split(",")} - {"le"}
        named |= set(re.findall(r"[{,]\s*(\w+)\s*[=!]", expression))
        of_used = set().union(*(metrics_known[base] for base in bases(expression, metrics_known)))
        assert named <= of_used, expression
    assert used == set(metrics_known)


def bases(expression: str, metrics_known: dict[str, set[str]]) -> list[str]:
    names = re.findall(r"\bmessaging_\w+", expression)
    return [name if name in metrics_known else _PARTS.sub("", name) for name in names]


def test_panels_have_titles_say_what_they_show_and_do_not_lie_over_each_other() -> None:
    seen: set[tuple[int, int]] = set()
    for panel in panels():
        assert panel["title"]
        assert panel["type"] == "row" or panel["description"]
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & seen, panel["title"]
        seen |= cells
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["alerts.yml", "alerts_test.yml"])
def test_alerts_name_commands_that_there_are(name: str) -> None:
    from typer.main import get_command

    from messaging.cli.entry import app

    command: Any = get_command(app)
    for words in re.findall(r"`messaging ([^`]+)`", (ALERTS.parent / name).read_text()):
        found = command
        for word in words.split():
            if word.startswith("-") or not hasattr(found, "commands"):
                break
            assert word in found.commands, words
            found = found.commands[word]
