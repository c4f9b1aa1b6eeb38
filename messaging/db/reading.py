"""What an ORM statement reads and asks for: its mapped classes, its conditions, the keys it pins. Changes nothing.

Sees what stands in the statement itself (columns, FROM, joins, subqueries, CTEs), not what a loader option adds.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    Case,
    ClauseElement,
    Column,
    ColumnElement,
    FunctionFilter,
    Join,
    Select,
    TextClause,
)
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.elements import BinaryExpression, BooleanClauseList

#: Statements whose classes are remembered; as many as SQLAlchemy keeps compiled, of each engine.
MAX_REMEMBERED = 500

_classes: dict[object, frozenset[type]] = {}


def classes(statement: Any) -> frozenset[type]:
    """The mapped classes that a statement reads or writes.

    Remembered by the cache key that SQLAlchemy makes of a statement to compile each shape once: an application's own
    statements pay for a look-up only.
    """
    if not isinstance(statement, ClauseElement):
        return frozenset()
    cache_key = statement._generate_cache_key()
    key = None if cache_key is None else cache_key.key
    found = _classes.get(key)
    if found is None:
        entities = filter(None, map(entity_of, elements(statement)))
        found = frozenset(entity.mapper.class_ for entity in entities)
        if key is not None:
            if len(_classes) >= MAX_REMEMBERED:
                _classes.clear()
            _classes[key] = found
    return found


def elements(statement: Any) -> list[ClauseElement]:
    """The statement and everything within it."""
    if not isinstance(statement, ClauseElement):
        return []
    return [element for element in visitors.iterate(statement) if isinstance(element, ClauseElement)]


def entity_of(element: ClauseElement) -> Any | None:
    """The mapper or alias that an element stands for; None for what is mapped to no class."""
    return element._annotations.get("parententity")


def conditions(found: Sequence[ClauseElement]) -> Iterator[ClauseElement]:
    """Every WHERE, HAVING, ON, FILTER and CASE among the elements of a statement."""
    for element in found:
        if isinstance(element, Select):
            yield from element._where_criteria
            yield from element._having_criteria
            # Joins that `Select.join` asked for and nobody compiled yet: target, ON, left side, flags.
            yield from (join[1] for join in element._setup_joins if isinstance(join[1], ClauseElement))
        elif isinstance(element, Join):
            if element.onclause is not None:
                yield element.onclause
        elif isinstance(element, FunctionFilter):
            if element.criterion is not None:
                yield element.criterion
        elif isinstance(element, Case):
            yield from (when for when, _ in element.whens)


def names(condition: ClauseElement, column: Column[Any]) -> bool:
    """Whether a condition speaks of this column, or of an alias's or subquery's copy of it; in raw SQL, of its name."""
    for element in elements(condition):
        if isinstance(element, ColumnElement) and column in element.proxy_set:
            return True
        if isinstance(element, TextClause) and re.search(rf"\b{column.name}\b", element.text):
            return True
    return False


def pins(statement: Select[Any], columns: Sequence[Column[Any]]) -> bool:
    """Whether the WHERE of the statement itself equates each of these columns with a value."""
    pinned = [term.left for term in _terms(statement._where_criteria) if _is_value(term.right)]
    pinned += [term.right for term in _terms(statement._where_criteria) if _is_value(term.left)]
    return all(any(column in side.proxy_set for side in pinned) for column in columns)


def written(statement: Any, parameters: Any) -> Iterator[dict[str, Any]]:
    """The values of each row that an INSERT or UPDATE writes, by column; what the database computes is left out."""
    given = [parameters] if isinstance(parameters, Mapping) else list(parameters or ())
    in_lists = [row for rows in getattr(statement, "_multi_values", ()) for row in rows]
    for row in (*given, *in_lists, statement._values or {}):
        yield {
            str(getattr(column, "key", column)): value.value if isinstance(value, BindParameter) else value
            for column, value in row.items()
            if isinstance(value, BindParameter) or not isinstance(value, ClauseElement)
        }


def _terms(criteria: Sequence[Any]) -> Iterator[BinaryExpression[Any]]:
    """The equalities among conditions that all must hold."""
    for criterion in criteria:
        if isinstance(criterion, BooleanClauseList) and criterion.operator is operators.and_:
            yield from _terms(tuple(criterion.clauses))
        elif isinstance(criterion, BinaryExpression) and criterion.operator is operators.eq:
            yield criterion


def _is_value(side: Any) -> bool:
    return isinstance(side, BindParameter) and not side.expanding
