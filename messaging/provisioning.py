"""Seed data of a tenant, applied once: a ledger of what was applied makes a repeated run write nothing.

A seed is a YAML file of one row: `model`, `key`, and the row's fields. From then on the tenant owns the row: edited or
deleted, no later run touches it, and a seed that is changed later reaches no tenant that it was applied to.
"""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Identity, String, UniqueConstraint, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from messaging import audit, tenancy
from messaging.db.active import with_disabled
from messaging.db.base import Audited, Base, Timestamp
from messaging.db.filters import TenantOwned
from messaging.errors import TenantMismatch
from messaging.quota import TenantMessageQuota
from messaging.seed_models import MODELS
from messaging.seeds import PLATFORM_KEY, Seed, read_seeds
from messaging.tenancy import PLATFORM_TENANT_ID, SINGLE_TENANT_ID


class SeedLedger(TenantOwned, Audited, Base):
    """One seed that was applied for a tenant, and the row it made."""

    __tablename__ = "seed_ledger"
    __table_args__ = (UniqueConstraint("tenant_id", "model", "seed_key"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True, sort_order=-2)
    #: Table of the row.
    model: Mapped[str] = mapped_column(String(50))
    seed_key: Mapped[str] = mapped_column(String(100))
    row_id: Mapped[int] = mapped_column(BigInteger)
    applied_at: Mapped[datetime] = mapped_column(Timestamp, server_default=func.now())


class Outcome(StrEnum):
    """What became of a seed."""

    CREATED = "created"
    REBUILT = "rebuilt"
    #: It was applied before; its row, edited or deleted since, is left alone.
    APPLIED_BEFORE = "applied before"
    #: The tenant has such a row of its own, which is left alone and not the ledger's.
    OWN_ROW = "own row kept"


#: Why a row is deleted, in the audit log.
_REBUILDS = "its seed is applied anew"


@dataclass(frozen=True, slots=True)
class SeedResult:
    """One seed of a run."""

    model: str
    key: str
    outcome: Outcome
    #: None where the tenant's own row was kept.
    row_id: int | None


def provision_tenant(
    session: Session,
    tenant_id: int,
    folder: Path,
    *,
    rebuild: bool = False,
    environ: Mapping[str, str] | None = None,
) -> list[SeedResult]:
    """Apply the seeds in `folder` to a tenant, in the caller's transaction; -1 is the platform, 0 all without tenants.

    All or nothing: every file is read and checked first, and what fails after that undoes the rest. Runs for one tenant
    wait for each other, so that the second finds everything applied.

    Args:
        session: Of the caller.
        tenant_id: Whose rows are made.
        folder: Holds the seeds.
        rebuild: Rows that the ledger says seeds of these keys made are deleted and made anew from the files, whatever
            became of them since.
        environ: Where `{env: NAME}` finds secrets; None is the process's environment.

    Raises:
        FileRejected: Names file, key, field and value; a secret's value is not shown.
        TenantMismatch: The current tenant is another, or such a tenant cannot be.
    """
    _check_tenant(tenant_id)
    seeds = read_seeds(folder, os.environ if environ is None else environ)
    _check_may_set_quotas(seeds)
    with tenancy.tenant(tenant_id), session.begin_nested():
        lock = func.pg_advisory_xact_lock(func.hashtextextended(f"messaging.provision_tenant {tenant_id}", 0))
        session.execute(select(lock))
        applied = {(entry.model, entry.seed_key): entry for entry in session.scalars(select(SeedLedger)).all()}
        run = _Run(session, tenant_id, applied, rebuild)
        # What names another seed's row comes after it.
        ordered = sorted(seeds, key=lambda seed: bool(MODELS[seed.model].references))
        results = {(seed.model, seed.key): run.apply(seed) for seed in ordered}
        return [results[seed.model, seed.key] for seed in seeds]


def _check_tenant(tenant_id: int) -> None:
    if tenancy.is_single_tenant():
        if tenant_id != SINGLE_TENANT_ID:
            raise TenantMismatch(f"there is no tenant {tenant_id}: multi-tenancy is off, all is in tenant 0")
        return
    if type(tenant_id) is not int or not (tenant_id == PLATFORM_TENANT_ID or 1 <= tenant_id < 2**63):
        raise TenantMismatch(f"{tenant_id!r} is no tenant; allowed: 1 to 2**63 - 1, or -1 for the platform")
    acting = tenancy.current().tenant_id
    if acting not in (None, tenant_id, PLATFORM_TENANT_ID):
        raise TenantMismatch(f"tenant {acting} cannot provision tenant {tenant_id}")


def _check_may_set_quotas(seeds: list[Seed]) -> None:
    if tenancy.is_single_tenant() or tenancy.current().tenant_id in (None, PLATFORM_TENANT_ID):
        return
    for seed in seeds:
        if seed.model == TenantMessageQuota.__tablename__:
            raise seed.refused("model", f"model is {seed.model}: only the platform sets quotas")


class _Run:
    """One run, as far as it got."""

    def __init__(
        self, session: Session, tenant_id: int, applied: Mapping[tuple[str, str], SeedLedger], rebuild: bool
    ) -> None:
        self._session = session
        self._tenant_id = tenant_id
        self._applied = applied
        self._rebuild = rebuild
        #: Rows of the tenant's own that stand where seeds would have made some.
        self._kept: dict[tuple[str, str], int] = {}

    def apply(self, seed: Seed) -> SeedResult:
        """Make one seed's row, unless it was made before.

        What is rebuilt keeps its id: records that were prepared with a server, or name a template by id, still find it.
        """
        session, tenant_id = self._session, self._tenant_id
        applied = self._applied.get((seed.model, seed.key))
        if applied is not None and not self._rebuild:
            return SeedResult(seed.model, seed.key, Outcome.APPLIED_BEFORE, applied.row_id)
        model = MODELS[seed.model]
        fields = self._with_ids(seed)
        with tenancy.all_tenants() if model.is_platforms else nullcontext():
            if applied is not None:
                deleted: Any = session.execute(
                    delete(model.table).where(model.table.id == applied.row_id, model.table.tenant_id == tenant_id)
                )
                if deleted.rowcount:
                    table, owner = model.table.__table__, None if model.is_platforms else tenant_id
                    audit.note(session, "delete", table, applied.row_id, note=_REBUILDS, tenant_id=owner)
            twins = model.twins(tenant_id, fields)
            twin: int | None = None if twins is None else session.scalars(with_disabled(twins)).first()
            if twin is not None:
                self._kept[seed.model, seed.key] = twin
            row = None if twin is not None else model.new(tenant_id, fields)
            if row is not None:
                if applied is not None:
                    row.id = applied.row_id
                session.add(row)
                session.flush()
        if applied is not None:
            session.delete(applied)
            session.flush()
        if row is None:
            return SeedResult(seed.model, seed.key, Outcome.OWN_ROW, None)
        session.add(SeedLedger(model=seed.model, seed_key=seed.key, row_id=row.id))
        session.flush()
        outcome = Outcome.REBUILT if applied is not None else Outcome.CREATED
        return SeedResult(seed.model, seed.key, outcome, row.id)

    def _with_ids(self, seed: Seed) -> dict[str, Any]:
        """The fields with the ids of the rows that they name by their seeds.

        Raises: FileRejected, where there is no such row.
        """
        ids = {}
        for name, (table, _) in MODELS[seed.model].references.items():
            [(whose, key)] = seed.fields[name].items()
            is_platforms = whose == PLATFORM_KEY
            found = None if is_platforms else self._kept.get((table, key))
            found = found or self._made_by(table, key, is_platforms=is_platforms)
            if found is None:
                owner = "the platform" if is_platforms else "the tenant"
                raise seed.refused(name, f"{name}: {owner} has no row of a {table} seed {key!r}")
            ids[name] = found
        return seed.fields | ids

    def _made_by(self, table: str, key: str, *, is_platforms: bool) -> int | None:
        """The row that a seed made, if it is still there."""
        model = MODELS[table].table
        with tenancy.tenant(PLATFORM_TENANT_ID) if is_platforms else nullcontext():
            made = select(SeedLedger.row_id).where(SeedLedger.model == table, SeedLedger.seed_key == key)
            there = with_disabled(select(model.id).where(model.id.in_(made)))
            found: int | None = self._session.scalars(there).one_or_none()
        return found
