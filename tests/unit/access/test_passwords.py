"""Passwords of operators: which can be, how they are hashed, and that nobody's takes as long as somebody's."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from messaging.access import passwords
from messaging.errors import ConfigRejected, PasswordsBusy

PASSWORD = "correct horse battery"


def test_a_password_is_known_by_its_hash_and_by_no_other() -> None:
    first, second = (passwords.hashed(PASSWORD, user_name="ann") for _ in range(2))

    assert first.startswith("$argon2id$")
    assert first != second
    assert passwords.is_right(first, PASSWORD)
    assert not passwords.is_right(first, PASSWORD + "!")
    assert not passwords.is_right("no hash", PASSWORD)


def test_it_is_the_same_however_a_keyboard_composes_it() -> None:
    assert passwords.is_right(passwords.hashed("pässwörter sind so", user_name="ann"), "pa\u0308sswo\u0308rter sind so")


@pytest.mark.parametrize("password", ["", "x" * 11, "x" * 257, "correct-horse", "CORRECT-HORSE"])
def test_what_can_be_none_is_refused_without_being_repeated(password: str) -> None:
    with pytest.raises(ConfigRejected) as refused:
        passwords.hashed(password, user_name="correct-horse")

    assert refused.value.field == "password"
    assert refused.value.value is None


def test_nobodys_password_is_wrong_and_takes_as_long() -> None:
    known = passwords.hashed(PASSWORD, user_name="ann")
    passwords.is_right(None, PASSWORD)

    def seconds(password_hash: str | None) -> float:
        begun = time.thread_time()
        passwords.is_right(password_hash, "wrong")
        return time.thread_time() - begun

    # The least of several: the machine may be busy.
    somebody, nobody = (min(seconds(each) for _ in range(3)) for each in (known, None))
    assert not passwords.is_right(None, "the password of nobody")
    assert nobody > somebody / 4


def test_a_flood_of_passwords_is_told_to_come_again_instead_of_holding_threads() -> None:
    def look() -> bool:
        try:
            return not passwords.is_right(None, PASSWORD)
        except PasswordsBusy:
            return False

    with ThreadPoolExecutor(16) as pool:
        looked = [future.result() for future in [pool.submit(look) for _ in range(16)]]

    assert passwords.MAX_CALLERS <= looked.count(True) < 16
    assert look()
