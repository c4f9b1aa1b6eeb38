"""Runs: in small batches, resumable, one at a time, past what is held, and once past each row."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from messaging import api
from messaging.db.engine import create_engine
from messaging.mail.models import MAIL_SEND_RECORD
from messaging.retention.kinds import PruneKind
from messaging.retention.passes import PASSES
from messaging.retention.prune import PruneBusy, progress
from messaging.retention.walk import Statements
from messaging.sandbox.models import CAPTURED_MESSAGE
from messaging.settings import RetentionSettings
from tests.conftest import MakeSettings
from tests.integration.retention.conftest import Store
from tests.integration.retention.rows import CAPTURED, MAIL

pytestmark = pytest.mark.postgres16


def mails(store: Store, count: int, **columns: Any) -> list[int]:
    return [store.add(MAIL_SEND_RECORD, status="SENT", **{**MAIL, **columns}) for _ in range(count)]


def emptied(store: Store) -> list[int]:
    return [i for i in store.ids(MAIL_SEND_RECORD) if store.row(MAIL_SEND_RECORD, i).redacted_at is not None]


def test_a_run_that_was_broken_off_is_gone_on_with(store: Store, make_settings: MakeSettings) -> None:
    ids = mails(store, 7)
    assert store.prune(bodies_days=30, batch=2, batches=2) != {}
    before = emptied(store)
    assert 0 < len(before) < 7
    with Session(store.engine) as session:
        [line] = [one for one in progress(session, make_settings()) if one.name == "bodies/mail"]
        assert (line.last_id, line.pruned, line.finished_at) == (before[-1], len(before), None)
    assert store.prune(bodies_days=30, batch=2) == {"bodies/mail": 7 - len(before)}
    assert emptied(store) == ids
    with Session(store.engine) as session:
        [line] = [one for one in progress(session, make_settings()) if one.name == "bodies/mail"]
        assert (line.last_id, line.pruned, line.finished_at is None) == (ids[-1], 7, False)


def test_what_a_run_went_by_is_looked_at_again_and_nothing_else(store: Store) -> None:
    waiting = store.add(MAIL_SEND_RECORD, status="RETRY", **MAIL)
    sent = mails(store, 5)
    assert store.prune(bodies_days=30, batch=2) == {"bodies/mail": 5}
    assert store.leftovers() == [("bodies/mail", waiting)]
    assert store.prune(bodies_days=30, batch=2) == {}
    assert store.leftovers() == [("bodies/mail", waiting)]
    store.run(f"UPDATE mail_send_record SET status = 'SENT', sent_at = created_at WHERE id = {waiting}")
    assert store.prune(bodies_days=30, batch=2) == {"bodies/mail": 1}
    assert store.leftovers() == []
    assert emptied(store) == [waiting, *sent]


def test_a_row_that_somebody_holds_is_left_for_the_next_run(store: Store) -> None:
    held, free = mails(store, 2)
    with store.engine.connect() as other:
        other.execute(text(f"SELECT FROM mail_send_record WHERE id = {held} FOR UPDATE"))
        assert store.prune(bodies_days=30) == {"bodies/mail": 1}
        assert emptied(store) == [free]
    assert store.prune(bodies_days=30) == {"bodies/mail": 1}


def test_a_young_row_ends_the_walk_and_the_next_run_begins_at_it(store: Store) -> None:
    [old] = mails(store, 1)
    young = store.add(MAIL_SEND_RECORD, age=1, status="SENT", **MAIL)
    [older] = mails(store, 1)
    assert store.prune(bodies_days=30) == {"bodies/mail": 1}
    assert emptied(store) == [old]
    long_ago = "now() - interval '99 days'"
    store.run(f"UPDATE mail_send_record SET created_at = {long_ago}, sent_at = {long_ago} WHERE id = {young}")
    assert store.prune(bodies_days=30) == {"bodies/mail": 2}
    assert emptied(store) == [old, young, older]


def test_each_batch_is_a_transaction_of_its_own(store: Store) -> None:
    for record_id in range(5):
        store.add(CAPTURED_MESSAGE, record_id=record_id, **CAPTURED)
    assert store.prune(captured_days=30, batch=2, batches=1) == {"captured": 2}
    assert store.size(CAPTURED_MESSAGE) == 3


def test_a_second_run_at_once_is_refused(store: Store) -> None:
    mails(store, 1)
    with store.engine.connect() as other:
        # As long as its transaction, which a pooled connection ends.
        other.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('messaging.prune', 0))"))
        with pytest.raises(PruneBusy):
            store.prune(bodies_days=30)
    assert store.prune(bodies_days=30) == {"bodies/mail": 1}


def test_a_dry_run_counts_and_changes_nothing(store: Store) -> None:
    ids = mails(store, 5)
    assert store.count(bodies_days=30, records_days=30) == {"bodies/mail": 5, "records/mail": 5}
    assert (store.ids(MAIL_SEND_RECORD), emptied(store), store.leftovers()) == (ids, [], [])


def test_every_setting_has_its_passes_and_usage_and_audit_have_none() -> None:
    ages = {name.removesuffix("_days") for name in RetentionSettings.model_fields if name.endswith("_days")}
    assert ages == {kind.lower() for kind in PruneKind} == {one.kind.lower() for one in PASSES}
    assert not {"tenant_message_usage", "audit_log"} & {one.table.name for one in PASSES}


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_a_walk_reads_its_table_by_its_key(store: Store, one: Any) -> None:
    with store.engine.connect() as connection:
        # What these say of tables that are nearly empty here is what holds of large ones.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        found = connection.execute(
            text("EXPLAIN " + Statements.of(one).look.text), {"days": 1.0, "after": 0, "rows": 500}
        )
        plan = "\n".join(found.scalars())
    assert f"Index Scan using pk_{one.table.name} on {one.table.name} r" in plan
    assert "Sort" not in plan.split("SubPlan")[0]


@pytest.fixture
def captured(store: Store) -> Iterator[list[int]]:
    """Twenty captured messages; what a test has their deletion do ends with it."""
    yield [store.add(CAPTURED_MESSAGE, record_id=n, **CAPTURED) for n in range(20)]
    store.run("DROP TRIGGER IF EXISTS at_deletion ON captured_message")


def at_deletion(store: Store, does: str) -> None:
    """Have the deletion of each captured message do this."""
    store.run(
        "CREATE OR REPLACE FUNCTION at_deletion() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {does}; RETURN OLD; END $$"
    )
    store.run(
        "CREATE TRIGGER at_deletion BEFORE DELETE ON captured_message FOR EACH ROW EXECUTE FUNCTION at_deletion()"
    )


# As large messages do: 500 of 25 MB are more than a statement may take, each night anew.
def test_a_batch_that_a_statement_has_no_time_for_is_halved(
    store: Store, make_settings: MakeSettings, captured: list[int]
) -> None:
    at_deletion(store, "PERFORM pg_sleep(0.1)")
    hasty = create_engine(make_settings(database={"statement_timeout_seconds": 0.9, "lock_timeout_seconds": 0.5}))
    assert Store(hasty, make_settings, "db:").prune(captured_days=30) == {"captured": 20}
    hasty.dispose()
    assert store.ids(CAPTURED_MESSAGE) == []


def test_a_row_that_cannot_be_taken_away_ends_its_own_pass_alone(store: Store, captured: list[int]) -> None:
    ids = mails(store, 3)
    at_deletion(store, "RAISE EXCEPTION 'no' USING ERRCODE = 'integrity_constraint_violation'")
    with pytest.raises(IntegrityError):
        store.prune(captured_days=30, bodies_days=30, batch=2)
    assert emptied(store) == ids
    assert store.ids(CAPTURED_MESSAGE) == captured


def test_what_an_operators_run_took_before_it_failed_is_in_the_audit_log(
    store: Store, make_settings: MakeSettings, captured: list[int], unconfigured: None
) -> None:
    mails(store, 3)
    at_deletion(store, "RAISE EXCEPTION 'no' USING ERRCODE = 'integrity_constraint_violation'")
    api.configure(make_settings(retention={"captured_days": 30, "bodies_days": 30}), engine=store.engine)
    with pytest.raises(IntegrityError):
        api.prune([PruneKind.CAPTURED, PruneKind.BODIES])
    [entry] = api.list_audit_entries(action="prune")
    assert entry.after == {"captured": 0, "bodies/mail": 3, "bodies/sms": 0, "bodies/webhook": 0}
