"""Providers, routes, templates and bindings as rows, for tests of what is made of them."""

from typing import Any

from sqlalchemy import Engine, Table, insert, update

from messaging.clock import boot_seconds
from messaging.sms.models import (
    SMS_PROVIDER_CONFIG,
    SMS_PROVIDER_REGION,
    SMS_TEMPLATE,
    SMS_TEMPLATE_PROVIDER_BINDING,
)
from messaging.sms.planning import BindingCache, Plan, plan
from messaging.sms.routing import RouteCache

CN, TW, FR, DE, DRAMA = "+8613800138000", "+886912345678", "+33123456789", "+4915112345678", "+447700900123"


class Accounts:
    """Writes rows as plain SQL, of tenant 7 unless told otherwise, and plans records by them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.routes = RouteCache(engine, ttl_seconds=0, ticker=boot_seconds)
        self.bindings = BindingCache(engine, ttl_seconds=0, ticker=boot_seconds)

    def _insert(self, table: Table, **values: Any) -> int:
        with self.engine.begin() as connection:
            row_id: int = connection.execute(insert(table).values(values).returning(table.c.id)).scalar_one()
        return row_id

    def provider(self, provider_type: str = "TWILIO", *, tenant_id: int = 7, **columns: Any) -> int:
        values = {"name": provider_type, "provider_type": provider_type}
        return self._insert(SMS_PROVIDER_CONFIG, **values | {"tenant_id": tenant_id} | columns)

    def route(self, provider_id: int, region: str, *, tenant_id: int = 7, **columns: Any) -> int:
        values = {"provider_config_id": provider_id, "region_code": region, "tenant_id": tenant_id}
        return self._insert(SMS_PROVIDER_REGION, **values | columns)

    def template(self, code: str = "otp", *, tenant_id: int = 7, content: str = "{{ code }}") -> dict[str, Any]:
        values = {"code": code, "name": code, "content": content, "tenant_id": tenant_id}
        return {"id": self._insert(SMS_TEMPLATE, **values), **values}

    def bind(self, template: dict[str, Any], provider_id: int, region: str = "", **columns: Any) -> int:
        values = {"template_id": template["id"], "provider_config_id": provider_id, "region_code": region}
        return self._insert(SMS_TEMPLATE_PROVIDER_BINDING, **values | {"tenant_id": template["tenant_id"]} | columns)

    def change(self, table: Table, row_id: int, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(update(table).where(table.c.id == row_id).values(values))

    def plan(self, number: str, template: dict[str, Any] | None = None, **columns: Any) -> Plan:
        return plan(record(number, **columns), template, self.routes, self.bindings)

    def chosen(self, number: str, template: dict[str, Any] | None = None, **columns: Any) -> int:
        config_id: int = self.plan(number, template, **columns).config["id"]
        return config_id

    def serving(self, region: str, tenant_id: int = 7) -> list[int]:
        return [config["id"] for config in self.routes.providers_for(region, tenant_id)]


def record(number: str, **columns: Any) -> dict[str, Any]:
    """What planning reads of an unprepared record."""
    return {
        "tenant_id": 7,
        "scope": "TENANT",
        "phone_number": number,
        "provider_config_id": None,
        "external_template_id": None,
        "sign_name": None,
        **columns,
    }
