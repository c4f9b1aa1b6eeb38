"""Tenant rows are confined on every ORM read and stamped on every ORM write (operate.md section 1, O1 to O11)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, Select, Update, delete, exists, func, insert, literal, select, text, update
from sqlalchemy.exc import IntegrityError, LegacyAPIWarning
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    make_transient_to_detached,
    mapped_column,
    relationship,
    selectinload,
)
from sqlalchemy.orm.exc import ObjectDeletedError, StaleDataError

import messaging
from messaging import tenancy
from messaging.delivery.record import SendAttempt
from messaging.errors import MessageRejected, RecordNotFound, TenantContextMissing, TenantMismatch
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG, MailSendRecord, MailSendServerConfig
from messaging.requests import MessageScope, SendMail
from messaging.settings import Settings
from messaging.tenancy import PLATFORM_TENANT_ID, all_tenants, tenant
from tests.conftest import MakeSettings


@pytest.fixture
def settings(make_settings: MakeSettings) -> Settings:
    return make_settings(multi_tenancy=True)


@pytest.fixture
def session(settings: Settings, engine: Engine) -> Iterator[Session]:
    messaging.configure(settings, engine=engine)
    with Session(engine) as opened:
        yield opened
    tenancy.use_multi_tenancy(False)


S = MailSendServerConfig


def config(name: str = "server", **columns: object) -> MailSendServerConfig:
    return MailSendServerConfig(name=name, host="mail.example.com", port=25, **columns)


def config_values(**columns: object) -> dict[str, object]:
    return {"name": "server", "host": "mail.example.com", "port": 25, **columns}


def one_in_each(session: Session, *tenants: int) -> dict[int, int]:
    """A server of each tenant: their ids."""
    made = {}
    for tenant_id in tenants:
        with tenant(tenant_id):
            row = config(f"of {tenant_id}")
            session.add(row)
            session.commit()
            made[tenant_id] = row.id
    session.expunge_all()
    return made


def test_a_send_inside_a_tenant_is_its_own_and_a_platform_send_without_one_the_platforms(session: Session) -> None:
    with tenant(7):  # O1
        own = messaging.send_mail(to=["a@example.com"], text_body="x", session=session)
        platforms_server = messaging.send_mail(
            to=["a@example.com"], text_body="x", scope=MessageScope.PLATFORM, session=session
        )
    nobodys = messaging.send_mail(to=["a@example.com"], text_body="x", scope=MessageScope.PLATFORM, session=session)
    with all_tenants():
        owners = {row.id: row.tenant_id for row in session.scalars(select(MailSendRecord))}
    assert owners == {own: 7, platforms_server: 7, nobodys: PLATFORM_TENANT_ID}


def test_a_tenant_send_without_a_tenant_is_rejected_and_nothing_is_written(session: Session) -> None:
    with pytest.raises(MessageRejected) as refused:  # O2
        messaging.send_mail(SendMail(to=["a@example.com"], text_body="x"), session=session)
    assert refused.value.field == "scope"
    with all_tenants():
        assert session.scalar(select(func.count()).select_from(MailSendRecord)) == 0


def test_another_tenants_row_is_invisible_to_every_way_of_reading(session: Session) -> None:
    rows = one_in_each(session, 1, 2, PLATFORM_TENANT_ID)
    foreign, platforms = rows[2], rows[PLATFORM_TENANT_ID]
    with tenant(1):  # O5
        assert session.scalars(select(MailSendServerConfig.name)).all() == ["of 1"]
        assert session.scalar(select(func.count()).select_from(MailSendServerConfig)) == 1
        assert session.get(MailSendServerConfig, foreign) is None
        assert session.get(MailSendServerConfig, platforms) is None
        assert session.query(MailSendServerConfig).filter_by(id=foreign).one_or_none() is None


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(select(S.name).join(SendAttempt, SendAttempt.config_id == S.id, isouter=True), id="outer join"),
        pytest.param(select(aliased(S).name), id="alias"),
        pytest.param(select(select(S.name).subquery().c.name), id="subquery"),
        pytest.param(select(select(S.name).cte().c.name), id="cte"),
        pytest.param(select(S.name).union_all(select(S.name).where(S.tenant_id == 2)), id="union"),
        pytest.param(select(func.max(S.name)), id="aggregate"),
        pytest.param(select(func.min(S.name)).select_from(S), id="select_from"),
        pytest.param(select(literal("of 1")).where(exists(select(S.id).where(S.tenant_id == 1))), id="exists"),
        pytest.param(select(select(func.string_agg(S.name, ",")).scalar_subquery()), id="scalar subquery"),
        pytest.param(select(S.name).where(S.id.in_(select(S.id))).execution_options(a=1), id="in"),
    ],
)
def test_no_shape_of_a_statement_leads_past_the_filter(session: Session, statement: Select[Any]) -> None:
    one_in_each(session, 1, 2)
    with tenant(1):
        assert session.scalars(statement).all() == ["of 1"]
    with pytest.raises(TenantContextMissing):
        session.scalars(statement).all()


def test_an_exists_on_another_tenants_rows_is_false(session: Session) -> None:
    one_in_each(session, 1, 2)
    with tenant(1):
        assert session.scalar(select(exists(select(S.id).where(S.tenant_id == 2)))) is False
        assert session.scalar(select(func.count()).where(S.tenant_id == 2)) == 0


def test_another_tenants_row_is_out_of_reach_of_bulk_updates_and_deletes(session: Session) -> None:
    one_in_each(session, 1, 2)
    with tenant(1):  # O5
        session.execute(update(MailSendServerConfig).values(name="mine"))
        session.execute(delete(MailSendServerConfig).where(MailSendServerConfig.name == "of 2"))
        session.commit()
    with all_tenants():
        assert sorted(session.scalars(select(MailSendServerConfig.name))) == ["mine", "of 2"]


def test_the_library_finds_no_record_of_another_tenant(session: Session) -> None:
    with tenant(1):
        record_id = messaging.send_mail(to=["a@example.com"], text_body="x", session=session)
    session.commit()
    with tenant(2):  # O5
        for call in (messaging.status, messaging.retry, messaging.cancel):
            with pytest.raises(RecordNotFound, match=str(record_id)):
                call(record_id, session=session)
        assert messaging.retry_batch([record_id], session=session) == 0
        assert not messaging.mark_bounced(record_id=record_id, permanent=True, session=session)


def test_a_write_that_names_another_tenant_is_refused_before_any_sql(session: Session) -> None:
    for foreign in (2, PLATFORM_TENANT_ID):  # O6
        with tenant(1):
            session.add(config(tenant_id=foreign))
            with pytest.raises(TenantMismatch, match=str(foreign)):
                session.flush()
        session.rollback()


def test_a_platform_row_cannot_be_changed_from_a_tenant_and_the_error_says_so(session: Session) -> None:
    one_in_each(session, PLATFORM_TENANT_ID)
    with all_tenants():
        row = session.scalars(select(MailSendServerConfig)).one()
    with tenant(1):  # O6
        row.name = "taken over"
        with pytest.raises(TenantMismatch, match="belongs to the platform"):
            session.flush()
    session.rollback()


def test_the_tenant_of_a_row_never_changes(session: Session) -> None:
    one_in_each(session, 1)
    with all_tenants():
        row = session.scalars(select(MailSendServerConfig)).one()
        row.tenant_id = 2
        with pytest.raises(TenantMismatch, match="never changes"):
            session.flush()
    session.rollback()


@pytest.mark.parametrize(
    "given",
    [
        *({"tenant_id": value} for value in ("7", "x", True, 2**63, 1.0)),
        *({"user_id": value} for value in ("u-1", False, 2**70)),
        {"user_name": 5},
        {"trace_id": b"x"},
    ],
)
def test_a_context_that_no_column_holds_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(given))):
        tenancy.Context(**given)


def test_a_read_or_write_with_no_tenant_set_raises(session: Session) -> None:
    with pytest.raises(TenantContextMissing):  # O7
        session.scalars(select(MailSendServerConfig)).all()
    session.add(config())
    with pytest.raises(TenantContextMissing):
        session.flush()
    session.rollback()


def test_a_tenant_is_left_also_on_an_error_and_threads_do_not_share_it() -> None:
    seen: list[int | None] = []

    def second() -> None:
        with tenant(2):
            seen.append(tenancy.current().tenant_id)

    with pytest.raises(RuntimeError), tenant(1):  # O8
        raise RuntimeError
    assert tenancy.current().tenant_id is None
    with tenant(1):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        seen.append(tenancy.current().tenant_id)
    assert seen == [2, 1]


def test_a_tenant_inside_a_system_context_is_confined_again(session: Session) -> None:
    one_in_each(session, 1, 2)
    with all_tenants():  # O9
        assert len(session.scalars(select(MailSendServerConfig)).all()) == 2
        with tenant(2):
            assert session.scalars(select(MailSendServerConfig.name)).all() == ["of 2"]
        assert tenancy.current().cross_tenant


def test_a_write_across_tenants_must_name_its_tenant(session: Session) -> None:
    with all_tenants():  # O10
        session.add(config())
        with pytest.raises(TenantMismatch, match="must name its tenant_id"):
            session.flush()
        session.rollback()
        session.add(config(tenant_id=5))
        session.flush()
    with tenant(5):
        assert session.scalars(select(MailSendServerConfig.tenant_id)).all() == [5]


def test_a_bulk_orm_insert_is_refused_as_it_is_not_stamped(session: Session) -> None:
    with tenant(1), pytest.raises(TenantMismatch, match="bulk"):
        session.execute(insert(MailSendServerConfig), [{"name": "x", "host": "h", "port": 25, "tenant_id": 2}])


def test_an_orm_update_by_primary_key_is_refused_as_it_is_not_confined(session: Session) -> None:
    foreign = one_in_each(session, 1, 2)[2]
    with tenant(1):  # O5
        for options in ({}, {"dml_strategy": "bulk"}):
            with pytest.raises(TenantMismatch, match="primary key"):
                session.execute(update(S), [{"id": foreign, "name": "taken over"}], execution_options=options)
        for statement in (update(S).values(name="taken over"), delete(S)):
            with pytest.raises(TenantMismatch, match="not confined"):
                session.execute(statement, execution_options={"dml_strategy": "core_only"})
        assert session.execute(update(S), {"name": "mine"}).rowcount == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "statement",
    [
        update(S).values(tenant_id=PLATFORM_TENANT_ID),
        update(S).values({S.tenant_id: 2}),
        update(S).values({"tenant_id": 2, "name": "x"}),
        update(S).ordered_values((S.name, "x"), (S.tenant_id, 2)),
    ],
)
def test_no_update_gives_a_row_to_another_tenant(session: Session, statement: Update) -> None:
    one_in_each(session, 1)
    with tenant(1), pytest.raises(TenantMismatch, match="never changes"):  # O6
        session.execute(statement)
    with tenant(1), pytest.raises(TenantMismatch, match="never changes"):
        session.execute(update(S), {"tenant_id": 2})


def test_legacy_bulk_inserts_are_stamped(session: Session) -> None:
    with tenant(1):
        session.bulk_save_objects([config("one"), config("two")])
        session.bulk_save_objects([config("known")], return_defaults=True)
        session.bulk_insert_mappings(S, [{"name": "mapped", "host": "h", "port": 25}])  # type: ignore[arg-type]
        session.bulk_insert_mappings(
            S,  # type: ignore[arg-type]
            [{"name": "nulls", "host": "h", "port": 25, "tenant_id": None, "username": None}],
            render_nulls=True,
        )
        session.commit()
    with tenant(1):
        assert set(session.scalars(select(S.name))) == {"one", "two", "known", "mapped", "nulls"}
    with all_tenants():
        session.bulk_save_objects([config("named", tenant_id=2), config("named too", tenant_id=3)])
        assert session.scalars(select(S.tenant_id).where(S.name.like("named%")).order_by(S.id)).all() == [2, 3]


@pytest.mark.parametrize("foreign", [2, PLATFORM_TENANT_ID])
def test_a_legacy_bulk_insert_that_names_another_tenant_is_refused(session: Session, foreign: int) -> None:
    with tenant(1):  # O6
        for write in (
            lambda: session.bulk_save_objects([config(), config(tenant_id=foreign)]),
            lambda: session.bulk_save_objects([config(tenant_id=foreign)], return_defaults=True),
            lambda: session.bulk_insert_mappings(S, [{"name": "x", "host": "h", "port": 1, "tenant_id": foreign}]),  # type: ignore[arg-type]
        ):
            with pytest.raises(TenantMismatch, match=str(foreign)):
                write()
            session.rollback()
    with all_tenants(), pytest.raises(TenantMismatch, match="must name its tenant_id"):  # O10
        session.bulk_save_objects([config()])
    session.rollback()
    with pytest.raises(TenantContextMissing):  # O7
        session.bulk_save_objects([config()])
    session.rollback()
    with all_tenants():
        assert session.scalar(select(func.count()).select_from(S)) == 0


def test_a_legacy_bulk_update_reaches_its_own_tenants_rows_only(session: Session) -> None:
    rows = one_in_each(session, 1, 2, PLATFORM_TENANT_ID)
    with all_tenants():
        foreign_row = session.get_one(S, rows[2])
        session.expunge(foreign_row)
    foreign_row.name = "taken over"
    with tenant(1):  # O5
        session.bulk_update_mappings(S, [{"id": rows[1], "name": "mine"}])  # type: ignore[arg-type]
        session.commit()
        for foreign in (rows[2], rows[PLATFORM_TENANT_ID]):
            with pytest.raises(StaleDataError):
                session.bulk_update_mappings(S, [{"id": foreign, "name": "taken over"}])  # type: ignore[arg-type]
            session.rollback()
        with pytest.raises(StaleDataError):
            session.bulk_update_mappings(S, [{"id": i, "name": "taken over"} for i in rows.values()])  # type: ignore[arg-type]
        session.rollback()
        with pytest.raises(StaleDataError):
            session.bulk_save_objects([foreign_row])
        session.rollback()
        with pytest.raises(TenantMismatch, match="never changes"):
            session.bulk_update_mappings(S, [{"id": rows[1], "tenant_id": 2}])  # type: ignore[arg-type]
        session.rollback()
    with pytest.raises(TenantContextMissing):
        session.bulk_update_mappings(S, [{"id": rows[1], "name": "x"}])  # type: ignore[arg-type]
    session.rollback()
    with all_tenants():
        assert sorted(session.scalars(select(S.name))) == ["mine", "of -1", "of 2"]


def test_an_object_another_tenant_loaded_is_not_what_get_answers(session: Session) -> None:
    rows = one_in_each(session, 1, 2)
    kept = []  # strong references: the identity map is weak
    with tenant(2):
        kept += [session.get_one(S, rows[2]), *session.scalars(select(S))]
        assert kept[0] is kept[1]
    with all_tenants():
        kept += session.scalars(select(S)).all()
    with tenant(1):  # O5
        assert session.get(S, rows[2]) is None
        with pytest.warns(LegacyAPIWarning):
            assert session.query(S).get(rows[2]) is None
        own = session.get_one(S, rows[1])
        assert session.get(S, rows[1]) is own
        assert own not in kept
        own.name = "mine"
        session.flush()
        session.refresh(own)
    with all_tenants():
        session.expire_all()
        assert session.get_one(S, rows[1]).name == "mine"


def test_an_object_another_tenant_has_just_written_is_not_what_get_answers(session: Session) -> None:
    with tenant(2):
        written = config()
        session.add(written)
        session.flush()
        assert session.get(S, written.id) is written
    with tenant(1):
        assert session.get(S, written.id) is None


def test_a_copy_of_another_tenants_object_is_not_merged_over_its_row(session: Session) -> None:
    rows = one_in_each(session, 1, 2)
    with tenant(1):  # O6
        copies: list[dict[str, Any]] = [{"id": rows[2], "name": "x"}, {"id": rows[2], "name": "x", "tenant_id": 2}]
        for given in copies:
            session.merge(config(**given))  # it finds no such row, so this is a new one
            with pytest.raises((TenantMismatch, IntegrityError)):
                session.flush()
            session.rollback()
        # One that says it had been loaded by this tenant.
        lie = config(id=rows[2], tenant_id=1)
        make_transient_to_detached(lie)
        session.add(lie)
        lie.name = "taken over"
        with pytest.raises(ObjectDeletedError):
            session.flush()
        session.rollback()
    with all_tenants():
        assert sorted(session.scalars(select(S.name))) == ["of 1", "of 2"]


S_TABLE = MAIL_SEND_SERVER_CONFIG
ALL_ROWS = text("SELECT * FROM mail_send_server_config")


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(select(S).from_statement(ALL_ROWS), id="raw SQL"),
        pytest.param(select(S).from_statement(S_TABLE.select()), id="table"),
        pytest.param(select(insert(S).values(config_values(tenant_id=2)).returning(S.id).cte()), id="insert in a CTE"),
        pytest.param(select(update(S).values(tenant_id=2).returning(S.id).cte()), id="update in a CTE"),
        pytest.param(update(S).values(name="x").add_cte(insert(S).values(config_values()).cte()), id="added CTE"),
    ],
)
def test_a_statement_that_the_filter_does_not_reach_is_refused(session: Session, statement: Any) -> None:
    one_in_each(session, 1, 2)
    with tenant(1), pytest.raises(TenantMismatch, match=r"is not (confined|stamped)"):
        session.execute(statement)


def test_a_statement_within_another_is_confined(session: Session) -> None:
    one_in_each(session, 1, 2)
    renaming = update(S).values(name="mine")
    with tenant(1):
        assert session.scalars(select(renaming.returning(S.name).cte())).all() == ["mine"]
        assert session.scalars(select(S).from_statement(renaming.returning(S))).one().name == "mine"
        session.commit()
    with all_tenants():
        assert sorted(session.scalars(select(S.name))) == ["mine", "of 2"]


def test_an_object_that_only_says_it_had_been_loaded_reads_no_other_tenants_row(session: Session) -> None:
    foreign = one_in_each(session, 1, 2)[2]
    with tenant(1):
        lie = config(id=foreign, tenant_id=1)
        make_transient_to_detached(lie)
        session.add(lie)
        session.expire(lie)
        with pytest.raises(ObjectDeletedError):
            _ = lie.name


def test_an_object_at_hand_can_be_read_on_outside_its_tenant(session: Session) -> None:
    one_in_each(session, 1)
    with tenant(1):
        row = session.scalars(select(S)).one()
    session.expire(row)
    assert row.name == "of 1"
    assert row.password is None


def test_objects_at_hand_follow_an_update_of_their_tenant(session: Session) -> None:
    one_in_each(session, 1)
    with tenant(1):
        row = session.scalars(select(S)).one()
        for strategy in ("auto", "evaluate", "fetch"):
            session.execute(update(S).values(name=strategy), execution_options={"synchronize_session": strategy})
            assert row.name == strategy


class Application(DeclarativeBase):
    """An application's own models."""


class Shop(Application):
    __tablename__ = "shop"
    id: Mapped[int] = mapped_column(primary_key=True)
    server_id: Mapped[int]
    server: Mapped[MailSendServerConfig | None] = relationship(
        MailSendServerConfig,
        primaryjoin=lambda: Shop.server_id == S.id,
        foreign_keys=lambda: Shop.server_id,
        viewonly=True,
    )


def test_an_applications_own_objects_stay_one_and_reach_no_other_tenants_rows(session: Session) -> None:
    rows = one_in_each(session, 1, 2)
    Application.metadata.create_all(session.connection())
    session.add_all([Shop(id=1, server_id=rows[1]), Shop(id=2, server_id=rows[2])])
    session.flush()
    session.bulk_save_objects([Shop(id=3, server_id=rows[2])])
    shops = session.scalars(select(Shop).order_by(Shop.id)).all()
    with tenant(1):
        assert session.execute(select(Shop, S).join(S, S.id == Shop.server_id)).one()[0] is shops[0]
        assert session.get(Shop, 2) is shops[1]
        assert shops[1].server is None
        session.expire_all()
        loaded = session.scalars(select(Shop).options(selectinload(Shop.server)).order_by(Shop.id))
        assert [shop.server and shop.server.name for shop in loaded] == ["of 1", None, None]


def test_with_multi_tenancy_off_nothing_is_filtered_and_both_scopes_work(
    make_settings: MakeSettings, engine: Engine
) -> None:
    messaging.configure(make_settings(multi_tenancy=False), engine=engine)  # O11
    with Session(engine) as session:
        ids = [
            messaging.send_mail(to=["a@example.com"], text_body="x", scope=scope, session=session)
            for scope in MessageScope
        ]
        session.add(config())
        session.commit()
        assert session.scalars(select(MailSendRecord.tenant_id).where(MailSendRecord.id.in_(ids))).all() == [0, 0]
        assert session.scalars(select(MailSendServerConfig.tenant_id)).all() == [0]
