"""The fenced blocks of a page, as its readers meet them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"

#: ```` ```python title="file.py" ````
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)(?: +title=\"(?P<title>[^\"]+)\")? *$")


@dataclass(frozen=True)
class Block:
    """One block; `title` names the file that it is the content of."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """README and every page of docs that people have written."""
    written = [p for p in sorted(DOCS.rglob("*.md")) if p.parent != DOCS / "reference"]
    return ["README.md", *(str(path.relative_to(ROOT)) for path in written)]


def blocks(page: str) -> Iterator[Block]:
    """Raises ValueError where a fence is left open or is none that is understood."""
    opened: re.Match[str] | None = None
    start, lines = 0, list[str]()
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if opened is None:
            if line.lstrip().startswith(("```", "~~~")):
                opened, start, lines = _FENCE.match(line), number, []
                if opened is None:
                    raise ValueError(f"{page}:{number}: {line!r} opens no block that is understood")
        elif line.strip() == "```":
            yield Block(page, start, opened["language"], opened["title"], "\n".join(lines) + "\n")
            opened = None
        else:
            lines.append(line.removeprefix(opened["indent"]))
    if opened is not None:
        raise ValueError(f"{page}:{start}: the block is never closed")
