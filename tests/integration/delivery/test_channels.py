"""What delivery asks of a channel (`delivery/channel.py`), held to each of them: one suite, so that none drifts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Table, text

from messaging.category import MarkerCode
from messaging.clock import boot_seconds
from messaging.delivery.channel import UNKNOWN_PROVIDER, Channel, Claim, RateLimits
from messaging.delivery.gate import ClaimTooOld, SendGate, SendLimits
from messaging.delivery.recipients import RecipientStatus
from messaging.delivery.worker import DeliveryWorker
from messaging.errors import DeliveryError, PreparationError
from messaging.mail.models import MAIL_SEND_SERVER_CONFIG
from messaging.settings import Settings
from messaging.sms.models import SMS_PROVIDER_CONFIG
from messaging.webhooks.models import WEBHOOK_ENDPOINT
from tests.conftest import MakeSettings
from tests.integration.delivery.desk import Desk
from tests.integration.delivery.records import AT, KINDS, A, Records
from tests.integration.sms.desk import SmsDesk
from tests.integration.sms.providers.subjects import NUMBER
from tests.integration.webhooks.desk import WebhookDesk

LIMITS = SendLimits(send_budget_seconds=240, send_max_seconds=120, reply_wait_seconds=60)


@dataclass
class Subject:
    """One channel with a far end that takes everything."""

    channel: Channel
    records: Records
    worker: DeliveryWorker
    configs: Table
    #: Adds a default configuration at the far end.
    add_config: Callable[..., int]
    #: One where nobody listens.
    add_config_nowhere: Callable[[], int]
    #: Messages the far end took.
    taken: Callable[[], int]
    #: The configuration that records are written for, of a channel whose records are written prepared.
    config_id: int | None = None

    def accept(self, **columns: Any) -> int:
        to = {"sms": NUMBER, "mail": A}.get(self.channel.name) or str(self.config_id)
        return self.records.one(to=(to,), **columns)

    def claim(self, *record_ids: int) -> list[Claim]:
        claims = self.records.claim_now(*record_ids)
        self.channel.load(claims)
        return claims

    def prepared(self, **columns: Any) -> Claim:
        """A claimed record with what preparation found, as the write-back leaves it."""
        [claim] = self.claim(self.accept(**columns))
        if claim.is_prepared:
            return claim
        claim.content.update((k, v) for k, v in self.channel.prepare(claim).items() if v is not None)
        claim.provider = self.channel.provider(claim.content)
        return claim

    def send(self, claim: Claim, gate: SendGate | None = None) -> Any:
        recipients = self.channel.recipients(claim.content)
        return self.channel.send(claim, recipients, gate or gate_of(claim))


def gate_of(claim: Claim, ticker: Callable[[], float] = boot_seconds) -> SendGate:
    return SendGate(claim.claimed_at, LIMITS, ticker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every channel, but where a test is about what webhooks have none of."""
    if "subject" in metafunc.fixturenames:
        names = sorted(KINDS) if metafunc.function in NOT_OF_WEBHOOKS else [*sorted(KINDS), "webhook"]
        metafunc.parametrize("subject", names, indirect=True)


@pytest.fixture
def subject(
    request: pytest.FixtureRequest, make_settings: MakeSettings, engine: Any, make_desk: Callable[..., Desk]
) -> Iterator[Subject]:
    if request.param == "webhook":
        yield from webhooks(engine, make_settings)
        return
    settings: Settings = make_settings(config_cache_ttl_seconds=0)
    if request.param == "mail":
        desk = make_desk()
        yield Subject(
            channel=desk.channel,
            records=desk.records,
            worker=desk.worker,
            configs=MAIL_SEND_SERVER_CONFIG,
            add_config=desk.add_server,
            add_config_nowhere=lambda: desk.add_server(port=9),
            taken=lambda: len(desk.server.messages),
        )
        return
    texts = SmsDesk(engine, settings)
    server = texts.serve()
    yield Subject(
        channel=texts.channel,
        records=texts.records,
        worker=texts.worker,
        configs=SMS_PROVIDER_CONFIG,
        add_config=lambda **columns: texts.add_provider(server, **columns),
        add_config_nowhere=lambda: texts.add_provider(None),
        taken=lambda: len(server.api.taken),
    )
    texts.close()


def webhooks(engine: Any, make_settings: MakeSettings) -> Iterator[Subject]:
    transport = {"allow_private": True}
    desk = WebhookDesk(engine, make_settings(config_cache_ttl_seconds=0, webhooks={"transport": transport}))
    made = Subject(
        channel=desk.channel,
        records=Records(engine, desk.channel),
        worker=desk.worker,
        configs=WEBHOOK_ENDPOINT,
        add_config=lambda **columns: add(**columns),
        add_config_nowhere=lambda: add(url="http://127.0.0.1:9/"),
        taken=lambda: len(desk.api.calls),
    )

    def add(**columns: Any) -> int:
        made.config_id = desk.add(**columns)
        return made.config_id

    yield made
    desk.close()


def test_what_it_would_send_is_told_and_nothing_leaves(subject: Subject) -> None:
    subject.add_config()
    claim = subject.prepared()
    before = dict(claim.content)
    composed = subject.channel.compose(claim, gate_of(claim))
    assert composed.raw or composed.content
    assert subject.channel.compose(claim, gate_of(claim)) == composed
    assert subject.taken() == 0
    assert claim.content == before


def test_its_labels_and_columns_fit_its_table(subject: Subject) -> None:
    channel, kind = subject.channel, subject.records.kind
    assert (channel.table, channel.queue) == (kind.table, kind.queue)
    assert "prepared_at" in channel.prepared_columns
    assert set(channel.prepared_columns) <= set(channel.table.c.keys())
    assert len(set(channel.prepared_columns)) == len(channel.prepared_columns)
    assert not set(channel.prepared_columns) & {
        "id",
        "version",
        "status",
        "claim_token",
        "next_attempt_at",
        "tenant_id",
    }


def test_preparation_fills_its_columns_and_names_who_takes_the_message(subject: Subject) -> None:
    config_id = subject.add_config()
    [claim] = subject.claim(subject.accept())
    found = subject.channel.prepare(claim)
    assert found.keys() <= set(subject.channel.prepared_columns)
    assert found["prepared_at"] is not None
    assert claim.content["prepared_at"] is None  # what is written back counts, not what was found
    claim.content |= found
    assert subject.channel.config_id(claim) == config_id
    label = subject.channel.provider(claim.content)
    assert label == label.lower() != UNKNOWN_PROVIDER


def test_its_recipients_are_all_asked_about_on_the_suppression_list(subject: Subject) -> None:
    subject.add_config()
    claim = subject.prepared()
    recipients = subject.channel.recipients(claim.content)
    assert len(recipients) == len(set(recipients)) == 1
    assert list(subject.channel.subject(claim.content).addresses) == list(recipients)


def test_a_send_answers_for_each_recipient(subject: Subject) -> None:
    subject.add_config()
    claim = subject.prepared()
    results = subject.send(claim)
    assert list(results) == list(subject.channel.recipients(claim.content))
    assert {result.status for result in results.values()} == {RecipientStatus.ACCEPTED}
    assert all(result.code and result.text and result.category is None for result in results.values())
    assert subject.taken() == 1


@pytest.mark.parametrize("age", [LIMITS.send_budget_seconds - LIMITS.send_max_seconds, LIMITS.send_budget_seconds])
def test_an_old_claim_sends_nothing(subject: Subject, age: float) -> None:
    subject.add_config()
    claim = subject.prepared()
    claim.claimed_at -= age + 1
    with pytest.raises(ClaimTooOld):
        subject.send(claim)
    assert subject.taken() == 0


def test_a_claim_that_gets_old_before_the_last_byte_sends_nothing(subject: Subject) -> None:
    subject.add_config()
    claim = subject.prepared()
    looks = iter((0.0, 0.0))  # made and started in time, then the host sleeps
    late = LIMITS.send_budget_seconds - LIMITS.reply_wait_seconds + 1

    class Late(SendGate):
        def check_last_byte(self) -> None:
            self._ticker = lambda: claim.claimed_at + late
            super().check_last_byte()

    gate = Late(claim.claimed_at, LIMITS, lambda: claim.claimed_at + next(looks, 0.0))
    with pytest.raises(ClaimTooOld):
        subject.send(claim, gate)
    assert subject.taken() == 0
    assert not gate.is_last_byte_free


def test_limits_are_those_of_the_owner_of_the_configuration(subject: Subject) -> None:
    config_id = subject.add_config()
    claim = subject.prepared()
    assert subject.channel.rate_limits(claim) is None
    subject.records.run(text(f"UPDATE {subject.configs.name} SET daily_send_limit = 5, rate_limit_per_minute = 0"))
    subject.channel.load([claim])
    assert subject.channel.rate_limits(claim) == RateLimits(0, config_id, 5, 0)


def test_a_configuration_that_is_gone_is_told_and_never_replaced(subject: Subject) -> None:
    subject.add_config()
    claim = subject.prepared()
    subject.records.run(text(f"DELETE FROM {subject.configs.name}"))
    subject.add_config()
    for use in (subject.channel.rate_limits, subject.send):
        subject.channel.load([claim])
        with pytest.raises(PreparationError) as told:
            use(claim)
        assert told.value.marker is MarkerCode.CONFIG_NOT_RESOLVABLE
    assert subject.taken() == 0


def test_a_disabled_configuration_still_sends_what_was_prepared_with_it(subject: Subject) -> None:
    subject.add_config()
    claim = subject.prepared()
    subject.records.run(text(f"UPDATE {subject.configs.name} SET active = false"))
    subject.channel.load([claim])
    assert subject.send(claim)
    [other] = subject.claim(subject.accept())
    with pytest.raises(PreparationError):
        subject.channel.prepare(other)


def test_a_far_end_that_is_away_leaves_no_doubt(subject: Subject) -> None:
    subject.add_config_nowhere()
    with pytest.raises(DeliveryError) as told:
        subject.send(subject.prepared())
    assert told.value.category.is_retryable
    assert not told.value.is_uncertain


def test_nothing_is_locked_or_open_while_it_sends(subject: Subject) -> None:
    subject.add_config()
    record_id = subject.accept()
    assert subject.worker.deliver([[record_id, 0]]) == {"sent": 1}
    with subject.records.engine.connect() as connection:
        found = connection.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND state LIKE 'idle in transaction%'"
            )
        )
        assert found.scalar_one() == 0


def test_the_outcome_names_channel_provider_and_configuration(subject: Subject) -> None:
    config_id = subject.add_config()
    record_id = subject.accept()
    assert subject.worker.deliver([[record_id, 0]]) == {"sent": 1}
    [attempt] = subject.records.attempts(record_id)
    assert (attempt.channel, attempt.config_id) == (subject.channel.name, config_id)
    assert attempt.provider == subject.channel.provider(vars(subject.records.row(record_id)))
    assert attempt.provider != UNKNOWN_PROVIDER


def test_a_prepared_record_needs_nothing_but_itself_and_its_configuration(subject: Subject) -> None:
    config_id = subject.add_config()
    first = subject.prepared()
    assert first.content["prepared_at"] != AT
    second = Claim(first.record_id, first.version, first.token, first.tenant_id, 1, dict(first.content), boot_seconds())
    subject.channel.load([second])
    assert second.is_prepared
    assert subject.channel.config_id(second) == config_id
    assert subject.send(second)


#: A webhook's record is written prepared, endpoints have no limits and are on no list, and one that is disabled gets
#: nothing; what becomes of one that is gone or disabled: `tests/integration/webhooks`.
NOT_OF_WEBHOOKS = frozenset(
    {
        test_preparation_fills_its_columns_and_names_who_takes_the_message,
        test_its_recipients_are_all_asked_about_on_the_suppression_list,
        test_limits_are_those_of_the_owner_of_the_configuration,
        test_a_configuration_that_is_gone_is_told_and_never_replaced,
        test_a_disabled_configuration_still_sends_what_was_prepared_with_it,
    }
)
