"""The README names every setting, with its default, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from messaging.settings import Settings

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings_of(field.annotation, f"{prefix}{name.upper()}__")
        else:
            default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default or "empty")
            default = "none" if field.default is None else default
            yield prefix + name.upper(), "required" if field.is_required() else default.removesuffix(".0")


def test_every_setting_stands_in_the_readme_with_its_default() -> None:
    section = README.partition("## Settings")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `([A-Z0-9_]+)` \| ([^|]*) \| [^|]+ \|$", section, re.MULTILINE))
    assert documented == dict(settings_of(Settings))
