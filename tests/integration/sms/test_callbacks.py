"""An endpoint of an application's own: whose a provider's request is, whether it is genuine, taking it."""

import base64
import hashlib
import hmac

import pytest
from sqlalchemy import Engine, event, select

from messaging.db.encryption import encrypt
from messaging.sms.callbacks import Account, Callback, CallbackUncheckable, find_account, is_forged, take_receipt
from messaging.sms.models import SMS_PROVIDER_CONFIG
from messaging.sms.providers import registry
from tests.integration.sms.accounts import Accounts
from tests.integration.sms.receipt_records import Records

BODY = b"MessageSid=SM1&MessageStatus=delivered"
#: The vector of sms.md section 7.1, of the auth token 12345.
URL, SIGNATURE = "https://example.com/dlr", "Eh3OmFYieHGA9UL5MiALIuE9ElE="


def callback(url: str | None = URL, body: bytes = BODY, **headers: str) -> Callback:
    return Callback(url, {"X-Twilio-Signature": SIGNATURE, **headers}, "", {}, body)


def token_of(engine: Engine, config_id: int) -> str:
    t = SMS_PROVIDER_CONFIG.c
    with engine.connect() as connection:
        token: str = connection.execute(select(t.receipt_token).where(t.id == config_id)).scalar_one()
    return token


@pytest.fixture
def account(accounts: Accounts) -> Account:
    config_id = accounts.provider(api_key="AC1", api_secret="12345")
    found = find_account(accounts.engine, registry.provider("TWILIO"), token_of(accounts.engine, config_id))
    assert found is not None
    assert (found.config.id, found.config.tenant_id, found.config.api_secret) == (config_id, 7, "12345")
    return found


def test_the_vector_is_genuine_and_a_changed_parameter_is_not(account: Account) -> None:
    # sms.md D5
    assert not is_forged(account, callback())
    assert is_forged(account, callback(body=BODY.replace(b"delivered", b"failed")))
    assert is_forged(account, callback(url="https://example.com/other"))


def test_without_the_address_a_signature_is_neither_right_nor_wrong(account: Account) -> None:
    with pytest.raises(CallbackUncheckable, match="MESSAGING_PUBLIC_BASE_URL"):
        is_forged(account, callback(url=None))


def test_a_signature_that_does_not_cover_the_address_needs_none(accounts: Accounts) -> None:
    config_id = accounts.provider("SINCH", api_key="k", api_secret="s")
    sinch = find_account(accounts.engine, registry.provider("SINCH"), token_of(accounts.engine, config_id))
    assert sinch is not None
    digest = base64.b64encode(hmac.new(b"s", BODY + b".n.1", hashlib.sha256).digest()).decode()
    signed = {"x-sinch-webhook-signature-nonce": "n", "x-sinch-webhook-signature-timestamp": "1"}
    assert not is_forged(sinch, callback(url=None, **signed, **{"x-sinch-webhook-signature": digest}))


def test_a_request_is_taken_for_the_account(account: Account, engine: Engine) -> None:
    records = Records(engine)
    record_id = records.sent("SM1", config=account.config.id)
    assert take_receipt(engine, account, callback()).applied == 1
    assert records.told_of(record_id)[0] == "DELIVERED"


def test_every_token_that_could_be_one_costs_one_query(accounts: Accounts, engine: Engine) -> None:
    token = token_of(engine, accounts.provider(api_key="AC1", api_secret="12345"))
    twilio, bird = registry.provider("TWILIO"), registry.provider("BIRD")
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    for provider, asked in ((twilio, token), (twilio, "x" * 43), (bird, token), (twilio, token.swapcase())):
        statements.clear()
        found = find_account(engine, provider, asked)
        assert (found is not None) is ((provider, asked) == (twilio, token))
        assert len(statements) == 1
    for asked in ("", "x", "x" * 65, token + "\x00", token + "\n", "ü" * 43):
        assert find_account(engine, twilio, asked) is None


def test_a_secret_that_no_key_decrypts_is_said(accounts: Accounts, engine: Engine) -> None:
    config_id = accounts.provider(api_key="AC1")
    token = token_of(engine, config_id)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE sms_provider_config SET api_secret = %s", (encrypt("s")[:-4] + "AAAA",))
    with pytest.raises(CallbackUncheckable, match=f"api_secret of SMS provider {config_id}"):
        find_account(engine, registry.provider("TWILIO"), token)


def test_a_key_pair_checks_by_the_auth_token_that_is_stored_encrypted(accounts: Accounts) -> None:
    pair = {"api_key": "SK1", "api_secret": "of the pair", "account_id": "AC1"}
    config_id = accounts.provider(**pair, ext_config={"authToken": "12345"})
    found = find_account(accounts.engine, registry.provider("TWILIO"), token_of(accounts.engine, config_id))
    assert found is not None
    assert not is_forged(found, callback())
    assert is_forged(found, callback(body=BODY + b"x"))
