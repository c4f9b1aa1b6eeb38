"""How the statements of a pass are planned."""

from typing import Any

import pytest
from sqlalchemy import text

from messaging.retention.passes import PASSES
from messaging.retention.walk import Statements
from tests.integration.retention.conftest import Store

pytestmark = pytest.mark.postgres16


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_what_a_row_depends_on_is_asked_for_each_and_never_read_as_a_whole(store: Store, one: Any) -> None:
    # A hashed subplan reads a table to its end, for a batch of 500.
    given = {"days": 1.0, "after": 0, "rows": 500, "ids": [1, 2], "name": one.name}
    statements = Statements.of(one)
    for statement in (statements.look, statements.look_at_leftovers, statements.lock):
        used = {name: value for name, value in given.items() if f":{name}" in statement.text}
        with store.engine.connect() as connection:
            plan = "\n".join(connection.execute(text(f"EXPLAIN (VERBOSE) {statement.text}"), used).scalars())
        assert "hashed" not in plan.lower()
