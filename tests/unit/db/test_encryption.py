"""MACs by keys derived from the list of secrets: the first signs, all verify, each purpose by keys of its own."""

import base64
import hmac

import pytest
from cryptography.fernet import Fernet

from messaging.db.encryption import MacPurpose, is_mac, mac, use_keys

OLD, NEW = (base64.urlsafe_b64encode(bytes([n]) * 32).decode() for n in (1, 2))
VERP, UNSUBSCRIBE = MacPurpose.VERP, MacPurpose.UNSUBSCRIBE


def test_the_key_is_what_rfc_5869_derives_from_the_secret() -> None:
    use_keys((OLD,))
    # HKDF-SHA-256 with no salt: extract with a key of zeros, expand to one block.
    extracted = hmac.digest(bytes(32), bytes([1]) * 32, "sha256")
    key = hmac.digest(extracted, b"messaging mac verp\x01", "sha256")
    assert mac(VERP, b"17", octets=32) == hmac.digest(key, b"17", "sha256")
    assert mac(VERP, b"17", octets=4) == mac(VERP, b"17", octets=32)[:4]


def test_the_first_key_signs_and_every_listed_key_verifies() -> None:  # send.md section 8
    use_keys((OLD,))
    by_old = mac(VERP, b"17", octets=4)
    use_keys((NEW, OLD))
    assert mac(VERP, b"17", octets=4) != by_old
    assert is_mac(by_old, VERP, b"17", octets=4)
    assert is_mac(mac(VERP, b"17", octets=4), VERP, b"17", octets=4)
    use_keys((NEW,))
    assert not is_mac(by_old, VERP, b"17", octets=4)


def test_a_mac_is_good_for_its_message_its_purpose_and_its_length_alone() -> None:
    use_keys((Fernet.generate_key().decode(),))
    right = mac(VERP, b"17", octets=16)
    assert is_mac(right, VERP, b"17", octets=16)
    assert not is_mac(right, VERP, b"18", octets=16)
    assert not is_mac(right, UNSUBSCRIBE, b"17", octets=16)
    assert not is_mac(right[:4], VERP, b"17", octets=16)
    assert not is_mac(b"", VERP, b"17", octets=16)


@pytest.mark.parametrize("octets", [0, -1, 33])
def test_a_mac_of_no_octets_or_of_more_than_there_are_is_refused(octets: int) -> None:
    use_keys((OLD,))
    with pytest.raises(ValueError, match="octets"):
        mac(VERP, b"17", octets=octets)
    with pytest.raises(ValueError, match="octets"):
        is_mac(b"", VERP, b"17", octets=octets)
