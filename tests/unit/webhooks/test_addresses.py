"""Which addresses an event may go to."""

import pytest

from messaging.tcp import AddressRefused
from messaging.webhooks.addresses import check_public, check_url, is_public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",  # RFC 6598
        "169.254.169.254",  # what clouds tell their machines
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd12:3456::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a00:1",
        "2002:7f00:1::",
        "2002:c0a8:101::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",  # Teredo, client 127.0.0.1
        "2001:db8::1",
    ],
)
def test_what_is_not_of_the_internet_is_refused(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(AddressRefused):
        check_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_are_taken(address: str) -> None:
    check_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example.org/hook",
        "ftp://shop.example.org/",
        "https:///hook",
        "https://user:secret@shop.example.org/",
        "https://shop.example.org/#part",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://localhost/",
        "https://localhost./",
        "https://a.localhost/",
        "https://10.0.0.1:8443/",
        "https://shop.example.org:0/",
        "https://shop.example.org/ x",
        "https://shöp.example.org/",
        "shop.example.org",
        "https://shop.example.org/" + "x" * 2000,
    ],
)
def test_addresses_that_cannot_be_an_endpoint(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_url(url, allow_private=False)


@pytest.mark.parametrize("url", ["http://10.0.0.1:8080/hook", "http://localhost/", "https://shop.example.org/hook?a=1"])
def test_private_addresses_where_an_operator_of_the_system_allows_them(url: str) -> None:
    check_url(url, allow_private=True)


def test_a_public_address_with_tls_is_an_endpoint() -> None:
    check_url("https://shop.example.org:8443/hook?shop=1", allow_private=False)
