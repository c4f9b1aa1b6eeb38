"""A reader's Python session: a process of its own, which runs one block after the other in one namespace.

Lines on standard input are blocks as JSON; for each, a line on standard output says what it raised, or null.
"""

import ast
import json
import linecache
import sys
import traceback
from typing import Any


def run(source: str, place: str, namespace: dict[str, Any]) -> None:
    # A traceback shows the block's own lines.
    linecache.cache[place] = len(source), None, source.splitlines(keepends=True), place
    # `dont_inherit`: this module's own flags are none of the block's.
    exec(compile(ast.parse(source, place), place, "exec", dont_inherit=True), namespace)


def main() -> None:
    said, sys.stdout = sys.stdout, sys.stderr
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line in sys.stdin:
        given = json.loads(line)
        error = None
        try:
            run(given["source"], given["place"], namespace)
        except BaseException:  # noqa: BLE001 - whatever a block raises is what is told
            error = traceback.format_exc()
        print(json.dumps(error), file=said, flush=True)


if __name__ == "__main__":
    main()
