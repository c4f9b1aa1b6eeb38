"""Receipts and inbound messages over HTTP: whose they are, whether the provider made them, what is kept and applied."""

import logging
import time
from urllib.parse import urlencode

import pytest
from sqlalchemy import Engine, select, text, update

from messaging.db.encryption import encrypt
from messaging.db.engine import create_engine
from messaging.embedded import free_port
from messaging.settings import Settings
from messaging.sms.models import SMS_SEND_RECORD
from messaging.sms.receipts import apply_waiting
from messaging.suppression import SUPPRESSION
from messaging.web.limits import Limits
from messaging.web.serve import ASKED_AFTER_IDLE_SECONDS, make_engine
from tests.conftest import MakeSettings
from tests.integration.sms.accounts import DRAMA, Accounts
from tests.integration.sms.receipt_records import Records
from tests.integration.web.callers import (
    AUTH_TOKEN,
    PUBLIC_URL,
    SENDER,
    Account,
    Answer,
    Site,
    signed,
    status_of,
    tell,
)
from tests.integration.web.conftest import Open
from tests.polling import eventually


def suppressed(engine: Engine) -> list[tuple[int, str, str, bool]]:
    t = SUPPRESSION.c
    with engine.connect() as connection:
        rows = connection.execute(select(t.tenant_id, t.address, t.sender, t.lifted_at.is_(None)).order_by(t.id))
        return [tuple(row) for row in rows]


# -- receipts


def test_a_receipt_is_kept_as_it_came_and_applied(site: Site, twilio: Account, records: Records) -> None:
    record_id = records.sent("SM1", config=twilio.id)
    body = status_of("SM1")
    answer = tell(site, twilio.path, body)
    assert (answer.status, answer.body) == (200, b"")
    assert records.told_of(record_id)[0] == "DELIVERED"
    assert records.row(record_id).status == "SENT"  # sms.md D6
    [kept] = records.receipts()
    assert (kept.raw, kept.tenant_id, kept.provider_config_id) == (body.decode(), 7, twilio.id)
    assert kept.applied_at is not None


def test_a_receipt_is_told_to_the_tenants_webhook(
    site: Site, twilio: Account, records: Records, engine: Engine
) -> None:
    with engine.begin() as connection:
        columns = "tenant_id, name, url, secret"
        connection.execute(text(f"INSERT INTO webhook_endpoint ({columns}) VALUES (7, 'x', 'https://x.example', 'x')"))
    record_id = records.sent("SM1", config=twilio.id)
    for _ in range(2):  # a provider repeats what it is not sure of
        assert tell(site, twilio.path, status_of("SM1")).status == 200
    with engine.connect() as connection:
        [event] = connection.execute(text("SELECT event_type, about_record_id, tenant_id FROM webhook_send_record"))
    assert tuple(event) == ("message.delivered", record_id, 7)


def test_a_changed_parameter_is_refused_and_nothing_is_kept(site: Site, twilio: Account, records: Records) -> None:
    # sms.md D5
    record_id = records.sent("SM1", config=twilio.id)
    headers = signed(PUBLIC_URL + twilio.path, status_of("SM1"))
    assert site.ask("POST", twilio.path, status_of("SM1", "failed"), headers).status == 403
    assert site.post(twilio.path, status_of("SM1")).status == 403  # without a signature
    assert tell(site, twilio.path, status_of("SM1"), **{"X-Twilio-Signature": "é"}).status == 403
    assert records.told_of(record_id)[0] == "UNKNOWN"
    assert records.receipts() == []


def test_the_signature_covers_the_public_address_whatever_a_proxy_says(
    site: Site, twilio: Account, records: Records
) -> None:
    # sec-05
    record_id = records.sent("SM1", config=twilio.id)
    target = twilio.path + "?x=1"
    body = status_of("SM1")
    forwarded = {
        "Host": f"127.0.0.1:{site.port}",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "sms.example.com",
    }
    evil = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}
    for_evil = signed("https://evil.example" + target, body)
    assert site.ask("POST", target, body, for_evil | evil).status == 403
    assert site.ask("POST", target, body, for_evil | evil | {"Host": "evil.example"}).status == 403
    assert site.ask("POST", target, body, signed(PUBLIC_URL + target, body, "other key") | forwarded).status == 403
    seen = f"http://127.0.0.1:{site.port}{target}"
    assert site.ask("POST", target, body, signed(seen, body) | forwarded).status == 403
    assert records.receipts() == []
    assert site.ask("POST", target, body, signed(PUBLIC_URL + target, body) | forwarded).status == 200
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_a_trusted_proxy_does_not_change_the_address_that_is_signed(
    open_site: Open, twilio: Account, records: Records
) -> None:
    # sec-05
    site = open_site(trusted_proxies=["127.0.0.1"])
    body = status_of("SM1")
    evil = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example", "X-Forwarded-For": "192.0.2.1"}
    assert site.ask("POST", twilio.path, body, signed("https://evil.example" + twilio.path, body) | evil).status == 403
    assert tell(site, twilio.path, body, **evil).status == 200


def test_a_base_address_with_a_path_is_part_of_what_is_signed(open_site: Open, twilio: Account) -> None:
    site = open_site({"public_base_url": "https://example.com/messages/"})
    body = status_of("SM1")
    headers = signed("https://example.com/messages" + twilio.path, body)
    assert site.ask("POST", twilio.path, body, headers).status == 200
    assert tell(site, twilio.path, body).status == 403


def test_a_signature_that_cannot_be_checked_is_no_wrong_one(
    open_site: Open, twilio: Account, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    site = open_site({"public_base_url": None})
    assert tell(site, twilio.path, status_of("SM1")).status == 503
    assert records.receipts() == []
    assert any("MESSAGING_PUBLIC_BASE_URL" in getattr(record, "reason", "") for record in caplog.records)


def test_a_receipt_before_our_own_write_is_taken_and_applied_once_the_id_is_there(
    site: Site, twilio: Account, records: Records, engine: Engine
) -> None:
    # sms.md D7
    record_id = records.sent(None, config=twilio.id)
    assert tell(site, twilio.path, status_of("SM1")).status == 200
    [kept] = records.receipts()
    assert kept.applied_at is None
    with engine.begin() as connection:
        t = SMS_SEND_RECORD
        connection.execute(update(t).where(t.c.id == record_id).values(provider_message_id="SM1"))
    assert apply_waiting(engine).applied == 1
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_a_receipt_by_another_tenants_address_does_not_reach_the_record(
    site: Site, accounts: Accounts, records: Records
) -> None:
    # sms.md D8
    a, b = Account(accounts, tenant_id=7), Account(accounts, tenant_id=8)
    record_of_b = records.sent("SM1", config=b.id, tenant=8)
    assert tell(site, a.path, status_of("SM1", "failed")).status == 200
    assert records.told_of(record_of_b)[0] == "UNKNOWN"
    assert tell(site, b.path, status_of("SM1")).status == 200
    assert records.told_of(record_of_b)[0] == "DELIVERED"
    assert [receipt.tenant_id for receipt in records.receipts()] == [7, 8]


def test_a_disabled_configuration_still_hears_of_what_it_sent(site: Site, accounts: Accounts, records: Records) -> None:
    account = Account(accounts, active=False)
    record_id = records.sent("SM1", config=account.id)
    assert tell(site, account.path, status_of("SM1")).status == 200
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_what_cannot_be_read_is_kept_and_not_asked_for_again(
    site: Site, twilio: Account, records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    assert tell(site, twilio.path, b"To=%2B14155550199").status == 200
    [kept] = records.receipts()
    assert (kept.raw, kept.provider_message_id) == ("To=%2B14155550199", None)
    assert "14155550199" not in caplog.text


def test_unknown_tokens_other_providers_and_unknown_addresses_look_alike(
    site: Site, twilio: Account, records: Records
) -> None:
    body = status_of("SM1")
    elsewhere = site.post("/nowhere", body)
    assert elsewhere.status == 404
    for path in (
        f"/hooks/sms/twilio/{'x' * len(twilio.token)}",
        f"/hooks/sms/twilio/{twilio.token[:-1]}",
        f"/hooks/sms/twilio/{twilio.token}x",
        f"/hooks/sms/twilio/{twilio.token}%00",
        "/hooks/sms/twilio/%27%20OR%201=1",
        f"/hooks/sms/infobip/{twilio.token}",  # another provider's
        f"/hooks/sms/nobody/{twilio.token}",
        f"/hooks/sms/twilio/{'x' * 43}/inbound",
        f"{twilio.path}/elsewhere",
        f"{twilio.path}/",
    ):
        answer = tell(site, path, body)
        assert (answer.status, answer.body) == (404, elsewhere.body), path
        # What is no address of ours is not read, which ends its connection.
        assert answer.headers.keys() ^ elsewhere.headers.keys() <= {"connection"}
    assert records.receipts() == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_only_the_providers_method_is_taken(site: Site, twilio: Account, method: str, records: Records) -> None:
    body = status_of("SM1")
    answer = site.ask(method, f"{twilio.path}?{body.decode()}", headers=signed(PUBLIC_URL + twilio.path, b""))
    assert answer.status == 405
    assert not {name for name in answer.headers if name.startswith("access-control")}
    assert records.receipts() == []


def test_a_provider_that_tells_by_get_is_heard(site: Site, accounts: Accounts, records: Records) -> None:
    bird = Account(accounts, "BIRD", api_secret=None)
    record_id = records.sent("eef0", config=bird.id)
    query = "id=eef0&status=delivered&statusDatetime=2026-06-06T09%3A22%3A14%2B00%3A00"
    assert site.get(f"{bird.path}?{query}").status == 200
    assert records.told_of(record_id)[0] == "DELIVERED"
    [kept] = records.receipts()
    assert kept.raw == query


@pytest.mark.parametrize(
    ("provider_type", "body", "reply"),
    [
        (
            "ALIYUN",
            b'[{"phone_number":"13800138000","send_time":"2026-06-06 11:12:13","report_time":"2026-06-06 11:12:14",'
            b'"success":true,"err_code":"DELIVERED","err_msg":"ok","sms_size":"1","biz_id":"m-1","out_id":"1"}]',
            b'{"code":0,"msg":"OK"}',
        ),
        (
            "TENCENT",
            b'[{"user_receive_time":"2026-06-06 08:03:04","nationcode":"86","mobile":"13800138000",'
            b'"report_status":"SUCCESS","errmsg":"DELIVRD","description":"ok","sid":"m-1"}]',
            b'{"result":0,"errmsg":"OK"}',
        ),
    ],
)
def test_each_provider_gets_the_reply_it_waits_for(
    site: Site, accounts: Accounts, records: Records, provider_type: str, body: bytes, reply: bytes
) -> None:
    account = Account(accounts, provider_type)
    record_id = records.sent("m-1", config=account.id)
    answer = site.post(account.path, body, Content_Type="application/json")
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, "application/json", reply)
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_the_database_being_away_is_told_so_that_the_provider_comes_again(
    open_site: Open, make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    away = make_settings(database_url=f"postgresql://nobody@127.0.0.1:{free_port()}/nothing")
    engine = create_engine(away)
    site = open_site(engine=engine)
    for path in (f"/hooks/sms/twilio/{'x' * 43}", f"/hooks/sms/twilio/{'x' * 43}/inbound"):
        answer = site.post(path, status_of("SM1"))
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    engine.dispose()
    assert "x" * 43 not in caplog.text


def test_a_database_that_came_back_takes_the_next_receipt(
    open_site: Open, settings: Settings, twilio: Account, records: Records, engine: Engine
) -> None:
    own = make_engine(settings, Limits())
    site = open_site(engine=own)
    assert tell(site, twilio.path, status_of("SM1")).status == 200
    with engine.begin() as connection:
        ended = connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'messaging web'"
            " AND datname = current_database()"
        )
        assert ended.all() == [(True,)]
    time.sleep(ASKED_AFTER_IDLE_SECONDS)
    assert tell(site, twilio.path, status_of("SM2")).status == 200
    assert len(records.receipts()) == 2
    own.dispose()


def test_a_secret_that_no_key_decrypts_is_no_wrong_signature(
    site: Site, twilio: Account, engine: Engine, records: Records
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sms_provider_config SET api_secret = 'of another key'")
    assert tell(site, twilio.path, status_of("SM1")).status == 503
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sms_provider_config SET api_secret = %s", (encrypt(AUTH_TOKEN),))
    assert tell(site, twilio.path, status_of("SM1")).status == 200
    assert len(records.receipts()) == 1


def test_the_log_names_the_route_and_no_token_and_no_number(
    site: Site, twilio: Account, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tell(site, f"{twilio.path}?number=%2B14155550199", status_of("SM1"))
    tell(site, f"{twilio.path}/inbound", urlencode({"From": DRAMA, "Body": "STOP", "To": SENDER}).encode())
    tell(site, f"/hooks/sms/twilio/{twilio.token[:-1]}", status_of("SM1"))

    def lines() -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == "messaging.web.envelope"]

    # A line is written when the answer is on its way.
    eventually(lambda: len(lines()) == 3)
    assert [(line.route, line.status) for line in lines()] == [  # type: ignore[attr-defined]
        ("/hooks/sms/{provider}/{token}", 200),
        ("/hooks/sms/{provider}/{token}/inbound", 200),
        ("/hooks/sms/{provider}/{token}", 404),
    ]
    shown = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    for secret in (twilio.token[:-1], "14155550199", DRAMA, AUTH_TOKEN):
        assert secret not in shown


# -- inbound messages


def inbound(site: Site, account: Account, words: str, number: str = DRAMA) -> Answer:
    body = urlencode({"MessageSid": "SM9", "From": number, "To": SENDER, "Body": words}).encode()
    return tell(site, f"{account.path}/inbound", body)


def test_stop_puts_a_number_on_the_list_and_start_lifts_it(site: Site, twilio: Account, engine: Engine) -> None:
    for words in ("hello", "please stop it"):
        assert inbound(site, twilio, words).status == 200
    assert suppressed(engine) == []
    for _ in range(2):  # a provider may tell it twice
        assert inbound(site, twilio, " stop ").status == 200
    assert suppressed(engine) == [(7, DRAMA, SENDER, True)]
    assert inbound(site, twilio, "Start").status == 200
    assert suppressed(engine) == [(7, DRAMA, SENDER, False)]


def test_a_stop_that_the_provider_did_not_sign_is_refused(site: Site, twilio: Account, engine: Engine) -> None:
    body = urlencode({"From": DRAMA, "To": SENDER, "Body": "STOP"}).encode()
    path = f"{twilio.path}/inbound"
    assert site.ask("POST", path, body, signed(PUBLIC_URL + twilio.path, body)).status == 403  # the other address
    assert suppressed(engine) == []


def test_a_stop_from_what_is_no_number_is_taken_and_does_nothing(site: Site, twilio: Account, engine: Engine) -> None:
    for number in ("12345", "+0", "Alice", ""):
        assert inbound(site, twilio, "STOP", number).status == 200
    assert suppressed(engine) == []
