"""The site is built without a warning, and its reference pages are what the code says."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.integration.docs.blocks import DOCS, ROOT


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """docs/_generate.py, which is no package's."""
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "_generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_pages_are_what_the_code_says(generator: ModuleType) -> None:
    committed = {path.name: path.read_text() for path in (DOCS / "reference").glob("*.md")}
    made = generator.pages()
    different = sorted(name for name in {*made, *committed} if made.get(name) != committed.get(name))
    assert not different, f"docs/reference: {', '.join(different)}; write them anew: make docs"


def test_the_readmes_settings_are_some_of_those_with_their_defaults(generator: ModuleType) -> None:
    section = (ROOT / "README.md").read_text().partition("## Settings that matter")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([A-Z0-9_]+)` \| ([^|]*) \|", section, re.MULTILINE)
    known = dict(re.findall(r"^\| `MESSAGING_([A-Z0-9_]+)` \| ([^|]*) \|", generator.settings_page(), re.MULTILINE))
    assert named
    assert [(name, default) for name, default in named if known.get(name) != default] == []


def test_every_alert_has_its_answer() -> None:
    groups = yaml.safe_load((ROOT / "ops" / "prometheus" / "alerts.yml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    answered = set(re.findall(r"^\| `(Messaging\w+)` \|", (DOCS / "operating.md").read_text(), re.MULTILINE))
    assert answered == alerts


def test_the_site_builds_without_a_warning_and_asks_nobody_else(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "quick-start.html").read_text()
    fetched = re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"?(https?://[^\"> ]+)", page)
    assert fetched == []
