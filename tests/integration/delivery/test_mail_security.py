"""What a server's configuration adds to each mail: signature, envelope sender, unsubscribe link (send.md section 8)."""

from collections.abc import Callable
from email import message_from_bytes
from typing import Any

import dkim as dkimpy
import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from messaging import api
from messaging.db.encryption import encrypt, use_keys
from messaging.delivery.status import SendStatus
from messaging.mail import dkim, unsubscribe, verp
from messaging.requests import Attachment
from tests.integration.delivery.desk import Desk

DOMAIN, SELECTOR = "shop.example", "s2026"
BASE_URL = "https://mail.example.com"
KEY = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

MakeDesk = Callable[..., Desk]


@pytest.fixture
def opened(make_desk: MakeDesk) -> MakeDesk:
    def opened(**overrides: Any) -> Desk:
        desk = make_desk(**{"public_base_url": BASE_URL, **overrides})
        api.configure(desk.settings, engine=desk.engine)
        return desk

    return opened


def add_server(desk: Desk, **columns: Any) -> int:
    signing = {"dkim_domain": DOMAIN, "dkim_selector": SELECTOR, "dkim_private_key": KEY}
    return desk.add_server(**{"envelope_sender": "bounces@example.org", "verp": True, **signing, **columns})


def accept(**fields: Any) -> int:
    return api.send_mail(**{"to": ["ann@example.com"], "subject": "s", "text_body": "t", **fields})


def passes(mail: bytes) -> bool:
    records = {f"{SELECTOR}._domainkey.{DOMAIN}.".encode(): dkim.public_key_record(KEY).encode()}
    return bool(dkimpy.verify(mail, dnsfunc=lambda name, timeout=5: records.get(name)))


@pytest.mark.parametrize("files", [(), (Attachment(content=b"\0\xff" * 50_000, file_name="größe.bin"),)])
def test_every_attempt_sends_the_same_signed_octets_from_the_same_envelope_sender(
    opened: MakeDesk, files: tuple[Attachment, ...]
) -> None:
    desk = opened()
    add_server(desk)
    desk.server.on("EOD", "451 4.3.0 later", times=1)
    record_id = accept(attachments=files, unsubscribe_list="news")
    assert desk.deliver(record_id) == {"retry": 1}
    # What was settled at preparation is replayed, whatever the configuration says by now.
    desk.run("UPDATE mail_send_server_config SET verp = false, envelope_sender = NULL, updated_at = now()")
    assert desk.deliver(record_id) == {"sent": 1}
    first, second = desk.server.transactions
    assert first.raw == second.raw
    assert first.sender == second.sender == verp.address("bounces@example.org", record_id)
    assert passes(first.content)
    assert f"; t={int(desk.records.row(record_id).prepared_at.timestamp())};".encode() in first.content.replace(
        b"\r\n", b""
    )


def test_the_link_in_a_mail_leads_back_to_its_record_and_is_signed(opened: MakeDesk) -> None:
    desk = opened(public_base_url=BASE_URL + "/")
    add_server(desk)
    record_id = accept(to=["Ann <ann@example.com>"], unsubscribe_list="weekly news", headers={"List-Id": "<n.example>"})
    plain_id = accept()
    assert desk.deliver(record_id, plain_id) == {"sent": 2}
    mails = {t.sender: message_from_bytes(t.content) for t in desk.server.transactions}
    mail = mails[verp.address("bounces@example.org", record_id)]
    link = mail["List-Unsubscribe"]
    assert link.startswith(f"<{BASE_URL}/hooks/unsubscribe/")
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert mail["List-Id"] == "<n.example>"
    token = unsubscribe.read(link[1:-1].rpartition("/")[2])
    assert token is not None
    assert (token.record_id, token.tenant_id) == (record_id, 0)
    assert token.is_about(list_name="weekly news", address="ann@example.com")
    assert "List-Unsubscribe" not in mails[verp.address("bounces@example.org", plain_id)]


def test_a_list_without_an_address_to_leave_it_at_fails_the_mail(opened: MakeDesk) -> None:
    desk = opened(public_base_url=None)
    add_server(desk)
    record_id = accept(unsubscribe_list="news")
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code) == (SendStatus.FAILED, "CONFIG_NOT_RESOLVABLE")
    assert "PUBLIC_BASE_URL" in row.error_message


@pytest.mark.parametrize(
    ("columns", "code", "column"),
    [
        ({"dkim_private_key": "sesam"}, "CONFIG_NOT_RESOLVABLE", "dkim_private_key"),
        ({"dkim_domain": "a b"}, "CONFIG_NOT_RESOLVABLE", "dkim_domain"),
        ({"dkim_selector": "a b"}, "CONFIG_NOT_RESOLVABLE", "dkim_selector"),
        ({"envelope_sender": "b" * 60 + "@example.org"}, "CONFIG_NOT_RESOLVABLE", "verp"),
    ],
)
def test_a_configuration_that_cannot_be_used_fails_its_mails_and_is_named(
    opened: MakeDesk, columns: dict[str, str], code: str, column: str
) -> None:
    desk = opened()
    config_id = add_server(desk, **columns)
    record_id = accept()
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code) == (SendStatus.FAILED, code)
    assert column in row.error_message
    assert f"mail server {config_id}" in row.error_message
    assert "sesam" not in row.error_message
    assert desk.server.transactions == []


def test_a_signing_key_that_no_listed_key_decrypts_fails_the_mail_and_nothing_is_sent(opened: MakeDesk) -> None:
    desk = opened()
    add_server(desk)
    use_keys((Fernet.generate_key().decode(),))
    foreign = encrypt(KEY)
    use_keys(desk.settings.secrets_keys)
    desk.run(f"UPDATE mail_send_server_config SET dkim_private_key = '{foreign}', updated_at = now()")
    record_id = accept()
    assert desk.deliver(record_id) == {"failed": 1}
    row = desk.records.row(record_id)
    assert (row.status, row.error_code) == (SendStatus.FAILED, "CREDENTIAL_UNREADABLE")
    assert "dkim_private_key" in row.error_message
    assert foreign not in row.error_message
    assert desk.server.transactions == []
