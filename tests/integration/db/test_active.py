"""Disabled rows are hidden from every query-style ORM read, and from nothing else (operate.md section 2, O12, O15)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, Select, and_, case, delete, exists, func, literal, or_, select, text, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, mapped_column, relationship

import messaging
from messaging import tenancy
from messaging.db.active import with_disabled
from messaging.mail.models import MailSendServerConfig, MailTemplate
from messaging.settings import Settings
from messaging.tenancy import tenant
from tests.conftest import MakeSettings

S, T = MailSendServerConfig, MailTemplate
A = aliased(S)


def server(name: str, **columns: Any) -> MailSendServerConfig:
    return MailSendServerConfig(name=name, host="mail.example.com", port=25, **columns)


@pytest.fixture
def session(settings: Settings, engine: Engine) -> Iterator[Session]:
    """Servers and templates `on` and `off`; each template prefers the server of the other kind."""
    messaging.configure(settings, engine=engine)
    with Session(engine) as opened:
        on, off = server("on"), server("off", active=False)
        opened.add_all([on, off])
        opened.flush()
        opened.add(MailTemplate(code="on", name="on", preferred_server_config_id=off.id))
        opened.add(MailTemplate(code="off", name="off", active=False, preferred_server_config_id=on.id))
        opened.commit()
        opened.expunge_all()
        yield opened
    tenancy.use_multi_tenancy(False)


@pytest.mark.parametrize("model", [S, T])
def test_a_disabled_row_is_gone_from_lists_and_counts_and_found_by_its_id(session: Session, model: Any) -> None:
    disabled_id = session.scalars(with_disabled(select(model.id)).where(model.name == "off")).one()  # O12
    assert session.scalars(select(model.name)).all() == ["on"]
    assert session.scalar(select(func.count()).select_from(model)) == 1
    assert session.query(model).count() == 1
    assert session.scalars(select(model.name).where(model.name == "off")).all() == []
    found = session.get(model, disabled_id)
    assert found is not None
    assert found.name == "off"
    assert session.scalars(select(model.name).where(model.id == disabled_id)).all() == ["off"]
    assert session.scalars(select(model.name).where(disabled_id == model.id, model.name == "off")).all() == ["off"]
    assert sorted(session.scalars(with_disabled(select(model.name)))) == ["off", "on"]
    everything = session.scalars(select(model.name).order_by("name"), execution_options={"bypass_active": True})
    assert everything.all() == ["off", "on"]


HIDING = {
    "alias": select(A.name),
    "subquery": select(select(S.name).subquery().c.name),
    "cte": select(select(S.name).cte().c.name),
    "union": select(S.name).union_all(select(S.name).where(S.id < 0)),
    "in": select(S.name).where(S.id.in_(select(S.id))),
    "scalar subquery": select(select(func.string_agg(S.name, ",")).scalar_subquery()),
    "exists": select(literal("on")).where(~exists(select(S.id).where(S.name == "off"))),
    "all columns": select(S.name).where(S.host == "mail.example.com").order_by(S.active),
    "a list of keys": select(S.name).where(S.id.in_([1, 2])),
    "any of keys": select(S.name).where(or_(S.id == 1, S.id == 2)),
    "a key of another entity": select(S.name).join(A, A.id != S.id, isouter=True).where(or_(A.id.is_(None), A.id == 2)),
    "a word that only contains it": select(S.name).where(text("name <> 'inactive'")),
    "the other class's": select(S.name).join(T, T.preferred_server_config_id == S.id).where(T.active.is_(False)),
}


@pytest.mark.parametrize("statement", HIDING.values(), ids=HIDING.keys())
def test_no_shape_of_a_statement_shows_a_disabled_row(session: Session, statement: Select[Any]) -> None:
    assert session.scalars(statement).all() == ["on"]


NAMING = {
    "where": select(S.name).where(S.active.is_(False)),
    "nested": select(S.name).where(and_(or_(S.active == False, S.id < 0), S.port == 25)),  # noqa: E712
    "filter_by": select(S.name).filter_by(active=False),
    "alias": select(A.name).where(~A.active),
    "on": select(S.name).join(T, and_(T.id > 0, ~S.active)),
    "subquery": select(S.name).where(S.id.in_(select(S.id).where(~S.active))),
    "column of a subquery": (lambda q: select(q.c.name).where(~q.c.active))(select(S).subquery()),
    "cte": (lambda q: select(q.c.name).where(~q.c.active))(select(S).cte()),
    "raw SQL": select(S.name).where(text("NOT mail_send_server_config.active")),
    "having": select(S.name).group_by(S.id).having(~S.active),
    "filter": select(func.max(S.name).filter(~S.active)),
    "case": select(func.max(case((~S.active, S.name)))),
}


@pytest.mark.parametrize("statement", NAMING.values(), ids=NAMING.keys())
def test_a_statement_that_names_active_in_a_condition_gets_what_it_asks_for(
    session: Session, statement: Select[Any]
) -> None:
    assert session.scalars(statement).all() == ["off"]


def test_updates_and_deletes_reach_disabled_rows(session: Session) -> None:
    assert session.execute(update(S).values(port=26)).rowcount == 2  # type: ignore[attr-defined]
    assert session.execute(delete(T)).rowcount == 2  # type: ignore[attr-defined]


def test_an_expired_row_that_was_disabled_is_loaded_again(session: Session) -> None:
    row = session.scalars(select(S)).one()
    row.active = False
    session.commit()
    assert row.host == "mail.example.com"
    session.refresh(row)


class Application(DeclarativeBase):
    """An application's own models."""


class Shop(Application):
    __tablename__ = "shop"
    id: Mapped[int] = mapped_column(primary_key=True)
    server_id: Mapped[int]
    server: Mapped[MailSendServerConfig] = relationship(
        MailSendServerConfig,
        primaryjoin=lambda: Shop.server_id == S.id,
        foreign_keys=lambda: Shop.server_id,
        viewonly=True,
    )


def test_what_a_relationship_loads_is_not_filtered(session: Session) -> None:
    Application.metadata.create_all(session.connection())
    off = session.scalars(select(S.id).where(~S.active)).one()
    session.add(Shop(id=1, server_id=off))
    session.flush()
    shop = session.scalars(select(Shop)).one()
    assert shop.server.name == "off"
    joined = select(Shop.id).join(S, S.id == Shop.server_id)
    assert session.scalars(joined).all() == []


def test_both_filters_hold_at_once(make_settings: MakeSettings, engine: Engine) -> None:
    messaging.configure(make_settings(multi_tenancy=True), engine=engine)
    try:
        with Session(engine) as session:
            for tenant_id in (1, 2):
                with tenant(tenant_id):
                    session.add_all([server(f"on {tenant_id}"), server(f"off {tenant_id}", active=False)])
                    session.flush()
            with tenant(1):
                assert session.scalars(select(S.name)).all() == ["on 1"]
                assert session.scalars(select(S.name).where(~S.active)).all() == ["off 1"]
                assert sorted(session.scalars(with_disabled(select(S.name)))) == ["off 1", "on 1"]
    finally:
        tenancy.use_multi_tenancy(False)


@pytest.mark.parametrize(
    "ask", [lambda s: s.query(T).filter_by(code="off"), lambda s: s.query(T).filter(T.code == "off")]
)
def test_a_legacy_query_hides_disabled_rows(session: Session, ask: Callable[[Session], Any]) -> None:
    assert ask(session).one_or_none() is None
    assert ask(session).execution_options(bypass_active=True).one().name == "off"
