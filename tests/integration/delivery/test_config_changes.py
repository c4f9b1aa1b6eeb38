"""A server saved by another process is used by every worker's next attempt a second later (operate.md O61)."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from messaging.mail.models import MailSendServerConfig
from tests.far_end.smtp_server import ScriptedSmtpServer
from tests.integration.delivery.desk import Desk


def change(desk: Desk, config_id: int, **columns: Any) -> None:
    """Save as an operator's process does."""
    with Session(desk.own) as session:
        row = session.get_one(MailSendServerConfig, config_id)
        for name, value in columns.items():
            setattr(row, name, value)
        session.commit()


def test_a_changed_host_is_used_within_a_second_by_new_and_by_prepared_records(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(config_cache_ttl_seconds=1)  # O61
    config_id = desk.add_server()
    desk.server.refuse_rcpt("450 later", times=1)
    waiting = desk.records.one()
    assert desk.deliver(waiting) == {"retry": 1}
    with ScriptedSmtpServer() as moved:
        change(desk, config_id, port=moved.port)
        desk.ticker.ahead += 1.0
        assert desk.deliver(waiting) == {"sent": 1}
        assert desk.deliver(desk.records.one()) == {"sent": 1}
        assert (len(moved.messages), len(desk.server.messages)) == (2, 0)


def test_a_new_default_is_used_within_a_second_and_a_disabled_one_no_more(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(config_cache_ttl_seconds=1)
    first = desk.add_server(from_address="first@example.org")
    assert desk.deliver(desk.records.one()) == {"sent": 1}
    with Session(desk.own) as session:
        session.add(
            MailSendServerConfig(
                name="second",
                host="127.0.0.1",
                port=desk.server.port,
                from_address="second@example.org",
                is_default=True,
            )
        )
        session.commit()
    desk.ticker.ahead += 1.0
    assert desk.deliver(desk.records.one()) == {"sent": 1}
    change(desk, first, is_default=True)
    change(desk, first, active=False)
    desk.ticker.ahead += 1.0
    record_id = desk.records.one()
    assert desk.deliver(record_id) == {"failed": 1}
    assert desk.records.row(record_id).error_code == "CONFIG_NOT_RESOLVABLE"
    assert [message.sender for message in desk.server.messages] == ["first@example.org", "second@example.org"]
