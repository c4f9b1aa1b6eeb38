"""PostgreSQL goes away under the workers: they recover by themselves, nothing is lost (`operate.md` section 13)."""

from collections.abc import Callable

import pytest
from sqlalchemy.exc import DBAPIError

from messaging.embedded import Postgres
from tests.acceptance.conftest import Start
from tests.acceptance.records import accept, assert_each_once, attempt_outcomes, rows, wait_for
from tests.polling import stays

MAILS = 800


def restart(postgres: Postgres) -> None:
    postgres.restart()


def crash(postgres: Postgres) -> None:
    postgres.kill()
    postgres.start()


def stay_away(postgres: Postgres) -> None:
    """Long enough for every send under way to end without anybody to tell, and shorter than a sweep waits."""
    postgres.stop()
    stays(lambda: postgres.pid is None, 5, "away")
    postgres.start()


@pytest.mark.parametrize("fault", [restart, crash, stay_away])
def test_a_database_that_goes_away_in_the_middle_loses_and_repeats_no_mail(
    start: Start, postgres: Postgres, fault: Callable[[Postgres], None]
) -> None:
    setup = start(mail_workers=2)
    setup.smtp.on("EOD", delay_seconds=0.03)
    ids = accept(setup, MAILS)
    setup.smtp.wait_for(MAILS // 5, 60)
    fault(postgres)
    setup.engine.dispose()
    wait_for(setup, {"SENT": MAILS}, 150)
    assert_each_once(setup, MAILS)
    assert attempt_outcomes(setup) == {"SENT": MAILS}
    # What was claimed when it went away was given back or sent, never left to the sweep.
    assert {record.retry_count for record in rows(setup, ids)} == {0}
    assert all(node.is_running() for node in setup.nodes)


def test_nothing_is_accepted_without_the_database_and_nothing_is_half_written(start: Start, postgres: Postgres) -> None:
    # operate.md O57, of the library
    setup = start()
    postgres.stop()
    with pytest.raises(DBAPIError):
        accept(setup, 3)
    postgres.start()
    setup.engine.dispose()
    accept(setup, 2, prefix="later")
    wait_for(setup, {"SENT": 2}, 60)
    assert_each_once(setup, 2)
