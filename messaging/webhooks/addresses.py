"""Which addresses an event may go to: what an operator of a tenant enters must not reach into our own network.

Looked at where it is entered, and again at the address that is connected to: a name may resolve to another by then.
Sources: the IANA special-purpose address registries; OWASP, "Server-Side Request Forgery Prevention".
"""

import ipaddress
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import httpx2

from messaging.tcp import AddressRefused

#: RFC 6052: IPv6 addresses whose last 32 bits are an IPv4 address behind a translator. (RFC 8215's are no public ones.)
_TRANSLATED = IPv6Network("64:ff9b::/96")

#: Longest URL.
MAX_URL_CHARS = 2000


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet at large; a scope id does not count."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return all(_is_public(one) for one in (found, *_within(found)))


def check_public(address: str) -> None:
    """Refuse to connect to an address of a private network, of this host or of no single host.

    Raises: AddressRefused, without the address: what a name means in our own network is not for the tenant to read.
    """
    if not is_public(address):
        raise AddressRefused("its host has no public address")


def check_url(url: str, *, allow_private: bool) -> None:
    """Refuse an address to which no event may go. Names are looked up when one is sent.

    Raises: ValueError, with the reason.
    """
    if len(url) > MAX_URL_CHARS or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"allowed: at most {MAX_URL_CHARS} visible ASCII characters")
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as exc:
        raise ValueError("is no URL") from exc
    schemes = ("https", "http") if allow_private else ("https",)
    is_port = parts.port is None or 0 < parts.port < 65_536
    if parts.scheme not in schemes or not parts.host or not is_port:
        raise ValueError(f"allowed: a URL with {' or '.join(schemes)} and a host")
    if parts.userinfo or parts.fragment:
        raise ValueError("allowed: neither credentials nor a fragment")
    if not allow_private and _is_private_literal(parts.host):
        raise ValueError("names an address of a private network or of this host")


def _is_private_literal(host: str) -> bool:
    host = host.removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not is_public(host)
    except ValueError:  # a name
        return False


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address in _TRANSLATED:
            return True  # as public as the address within
        is_special = is_special or address.is_site_local
    return address.is_global and not is_special


def _within(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """IPv4 addresses that an IPv6 address leads to: mapped, 6to4, Teredo (its server and its client), translated."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _TRANSLATED:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
