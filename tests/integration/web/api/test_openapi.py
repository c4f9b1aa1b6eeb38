"""The API holds to its own description: schemathesis calls every operation with data that fits it, and that does not.

Left out is its check that whatever fits a shape is accepted: what an address, a template or a region is, no JSON schema
tells, and is answered 422 with the field.
"""

from collections.abc import Iterator
from functools import cache

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import positive_data_acceptance
from sqlalchemy import Engine
from starlette.types import ASGIApp, Receive, Scope, Send

from messaging import tenancy
from messaging.access.roles import Role
from messaging.db.session import transaction
from messaging.web.api.router import RESOURCES
from tests.integration.web.api.conftest import MakeClient, OpenApi
from tests.integration.web.api.rows import ROWS, USER_ID
from tests.integration.web.api.samples import OPERATIONS, Operation, hurry
from tests.integration.web.api.test_tenancy_crossing import BY_PREFIX, STREAMS

#: Cases of each operation and kind; the same ones in every run.
EXAMPLES = 6

#: Computing a password's hash takes a tenth of a second and attempts are counted: tested where they are at home.
SLOW = frozenset({"sign_in", "change_own_password", "set_operator_password", "add_operator"})


@pytest.fixture
def app(open_api: OpenApi) -> ASGIApp:
    return open_api(api={"rate_per_second": 100_000})


class Served:
    """One application for schemathesis, which reads its description once: whichever the test at hand has made."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


SERVED = Served()


@cache
def described() -> dict[str, APIOperation]:
    """The operations as schemathesis reads them."""
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", SERVED)
    return {one.ok().definition.raw["operationId"]: one.ok() for one in schema.get_all_operations()}


@pytest.mark.parametrize("prefix", BY_PREFIX)
def test_no_call_is_answered_otherwise_than_described(
    prefix: str, app: ASGIApp, client: MakeClient, engine: Engine
) -> None:
    token = client(Role.PLATFORM, user_id=USER_ID).headers["authorization"]
    SERVED.app = app
    named = described()
    row_id = None
    if prefix in ROWS:
        with tenancy.tenant(tenancy.PLATFORM_TENANT_ID), transaction(engine) as session:
            row_id = ROWS[prefix](session)

    for operation in BY_PREFIX[prefix]:
        if operation.name not in STREAMS:
            examples = 2 if operation.name in SLOW else EXAMPLES
            for strategy in strategies(named[operation.name], operation, row_id):
                check(strategy, token, examples)


def strategies(found: APIOperation, operation: Operation, row_id: int | None) -> Iterator[st.SearchStrategy[Case]]:
    for mode in GenerationMode:
        yield found.as_strategy(mode)
    if operation.has_id and row_id is not None:
        (name,) = (one["name"] for one in operation.raw["parameters"] if one["in"] == "path")
        yield found.as_strategy(
            GenerationMode.POSITIVE, path_parameters={name: str(row_id)}, query=hurry(operation) or None
        )


def check(strategy: st.SearchStrategy[Case], token: str, examples: int) -> None:
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def call(case: Case) -> None:
        headers = {"Authorization": token}
        response = case.call(headers=headers)
        left_out = [positive_data_acceptance]
        if response.status_code == 502:
            # Described, and true: nobody listens where the mailbox is.
            left_out.append(not_a_server_error)
        case.validate_response(response, excluded_checks=left_out, headers=headers)

    call()


def test_every_resource_is_described() -> None:
    described = {one.name for one in OPERATIONS}
    assert {route.operation_id for resource in RESOURCES for route in resource.routes} == described  # type: ignore[attr-defined]
