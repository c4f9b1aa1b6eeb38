"""Credentials at rest (send.md section 14): encrypted with the first key, readable with any, never shown."""

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

import messaging
from messaging.db import encryption
from messaging.db.encryption import CredentialUnreadable, decrypt, encrypt, use_keys
from messaging.mail.models import MailSendServerConfig
from tests.conftest import MakeSettings

SECRET = "correct horse battery staple"


def stored(engine: Engine) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text("SELECT password FROM mail_send_server_config")).scalar_one())


def test_a_password_is_stored_as_ciphertext_and_read_back(make_settings: MakeSettings, engine: Engine) -> None:
    messaging.configure(make_settings(), engine=engine)
    with Session(engine) as session:
        session.add(MailSendServerConfig(name="x", host="h", port=25, password=SECRET))
        session.commit()
        assert SECRET not in stored(engine)
        row = session.scalars(select(MailSendServerConfig)).one()
        assert row.password == SECRET
        assert SECRET not in repr(row)


def test_a_new_first_key_encrypts_and_the_old_one_still_reads(make_settings: MakeSettings) -> None:
    make_settings()
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    use_keys((old,))
    ciphertext = encrypt(SECRET)
    use_keys((new, old))
    assert decrypt(ciphertext) == SECRET
    assert Fernet(new).decrypt(encrypt(SECRET).encode()).decode() == SECRET


def test_a_lost_key_is_an_error_that_says_nothing_of_the_secret(make_settings: MakeSettings) -> None:
    make_settings()
    ciphertext = encrypt(SECRET)
    use_keys((Fernet.generate_key().decode(),))
    with pytest.raises(CredentialUnreadable) as unreadable:
        encryption.decrypt(ciphertext)
    assert ciphertext not in str(unreadable.value)
    assert SECRET not in str(unreadable.value)
