"""No path of the API crosses from one tenant into another: tried on every operation that its description has.

Tenant 7 and the platform own a row of each kind. Tenant 8's administrator, a person with the same number as one of
tenant 7's, and (for tenant 7's rows) the platform call every operation with the ids of those rows, in the path, the
query and the body. What is answered names nothing of theirs, and their rows are as they were.
"""

from collections import defaultdict
from collections.abc import Iterable

import pytest
from sqlalchemy import Engine, text
from starlette.testclient import TestClient

from messaging import tenancy
from messaging.access.roles import Role
from messaging.db.base import Base
from messaging.db.session import transaction
from tests.integration.web.api import samples
from tests.integration.web.api.conftest import MakeClient
from tests.integration.web.api.rows import ROWS, USER_ID, marker
from tests.integration.web.api.samples import OPERATIONS, Operation

PLATFORM = tenancy.PLATFORM_TENANT_ID
OWNER, STRANGER = 7, 8

#: Endless by nature; who hears what is tested where it is at home.
STREAMS = frozenset({"hear_my_inbox"})

TENANT_OPERATIONS = [one for one in OPERATIONS if Role.TENANT_ADMIN in one.roles and one.name not in STREAMS]


def by_prefix(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = defaultdict(list)
    for one in operations:
        found[one.prefix].append(one)
    return found


WITH_ID = by_prefix([one for one in TENANT_OPERATIONS if one.has_id])
WITHOUT_ID = by_prefix([one for one in TENANT_OPERATIONS if not one.has_id])
BY_PREFIX = by_prefix(OPERATIONS)


def call(caller: TestClient, operation: Operation, row_id: int) -> tuple[int, str]:
    answer = caller.request(
        operation.method,
        operation.at(row_id),
        params=samples.query(operation, row_id),
        json=samples.body(operation, row_id),
    )
    return answer.status_code, answer.text


def make_row(engine: Engine, prefix: str, tenant_id: int) -> int:
    with tenancy.tenant(tenant_id), transaction(engine) as session:
        return ROWS[prefix](session)


def rows_of(engine: Engine, tenant_id: int) -> dict[str, str]:
    """Every table's rows of this tenant, as text; but when a token was last used."""
    found = {}
    with engine.connect() as connection:
        for table in Base.metadata.sorted_tables:
            if "tenant_id" in table.columns and table.name != "audit_log":
                rows = f"SELECT to_jsonb(t) - 'last_used_at' AS row FROM {table.name} t WHERE tenant_id = :tenant"
                summed = text(f"SELECT coalesce(string_agg(row::text, ' ' ORDER BY row), '') FROM ({rows}) r")
                found[table.name] = connection.execute(summed, {"tenant": tenant_id}).scalar_one()
    return found


@pytest.fixture
def strangers(client: MakeClient) -> dict[str, TestClient]:
    return {
        "tenant 8": client(Role.TENANT_ADMIN, STRANGER, user_id=USER_ID),
        "the platform": client(Role.PLATFORM, user_id=USER_ID),
    }


def test_every_kind_of_row_that_a_path_names_is_tried() -> None:
    assert sorted(set(WITH_ID) - set(ROWS)) == []


@pytest.mark.parametrize("prefix", WITH_ID)
def test_a_path_with_anothers_id_leads_to_nothing(
    prefix: str, client: MakeClient, strangers: dict[str, TestClient], engine: Engine
) -> None:
    owner = client(Role.TENANT_ADMIN, OWNER, user_id=USER_ID)
    theirs, platforms = make_row(engine, prefix, OWNER), make_row(engine, prefix, PLATFORM)
    before = {tenant: rows_of(engine, tenant) for tenant in (OWNER, PLATFORM)}

    wrong = []
    for operation in WITH_ID[prefix]:
        for name, caller in strangers.items():
            status, told = call(caller, operation, theirs)
            if status != 404 or f"property-of-{OWNER}" in told:
                wrong.append(f"{name}: {operation.method} {operation.path} of tenant 7: {status} {told[:200]}")
        status, told = call(strangers["tenant 8"], operation, platforms)
        if status not in (403, 404) or f"property-of-{PLATFORM}" in told:
            wrong.append(f"tenant 8: {operation.method} {operation.path} of the platform: {status} {told[:200]}")

    assert wrong == []
    assert {tenant: rows_of(engine, tenant) for tenant in (OWNER, PLATFORM)} == before
    # The ids were right: their owner has them.
    found = [call(owner, one, theirs)[0] for one in WITH_ID[prefix] if one.method == "GET"]
    assert set(found) <= {200}, found


@pytest.mark.parametrize("prefix", WITHOUT_ID)
def test_a_query_or_a_body_with_anothers_ids_reads_and_changes_nothing_of_theirs(
    prefix: str, strangers: dict[str, TestClient], engine: Engine
) -> None:
    ids = {make_row(engine, kind, OWNER) for kind in ROWS}
    before = rows_of(engine, OWNER)

    wrong = []
    for operation in WITHOUT_ID[prefix]:
        for name, caller in strangers.items():
            for row_id in sorted(ids):
                status, told = call(caller, operation, row_id)
                if status >= 500 or f"property-of-{OWNER}" in told:
                    wrong.append(f"{name}: {operation.method} {operation.path} with {row_id}: {status} {told[:200]}")
                if not samples.body(operation, 1) and not samples.query(operation, 1):
                    break

    assert wrong == []
    assert rows_of(engine, OWNER) == before


@pytest.mark.parametrize("prefix", BY_PREFIX)
def test_nobody_and_no_role_without_the_permission_is_let_in(prefix: str, client: MakeClient) -> None:
    # operate.md O22, O35, O44
    callers = {None: client(None), **{role: client(role, OWNER) for role in Role}}

    wrong = []
    for operation in BY_PREFIX[prefix]:
        for role in set(callers) - set(operation.roles) if operation.roles else ():
            status, told = call(callers[role], operation, 1)
            if status != (401 if role is None else 403):
                wrong.append(f"{role or 'nobody'}: {operation.method} {operation.path}: {status} {told[:200]}")

    assert wrong == []


def test_a_marker_is_in_the_rows_of_its_tenant(engine: Engine, client: MakeClient) -> None:
    make_row(engine, "/tokens", OWNER)
    with tenancy.tenant(OWNER):
        assert marker() in client(Role.TENANT_ADMIN, OWNER).get("/api/v1/tokens").text
