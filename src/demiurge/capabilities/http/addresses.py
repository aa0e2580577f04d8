"""The addresses that a request may go to: those of the public internet, and those that a grant adds.

A name says nothing about where it leads, so the decision is about the address that is connected to; this prevents
server-side request forgery (SSRF). An IPv6 address that wraps an IPv4 address is refused unless a grant names the
wrapping, and then the wrapped address must be allowed as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Address", "Network", "networks", "refused"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL = {
    "unspecified": "0.0.0.0/8 ::/128",
    "loopback": "127.0.0.0/8 ::1/128",
    "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
    "link-local": "169.254.0.0/16 fe80::/10",
    "carrier-NAT": "100.64.0.0/10",
    "multicast": "224.0.0.0/4 ff00::/8",
    "IPv4-mapped": "::ffff:0:0/96",
    "IPv4-translated": "::ffff:0:0:0/96",
    "IPv4-compatible": "::/96",
    "NAT64": "64:ff9b::/96 64:ff9b:1::/48",
    "6to4": "2002::/16 192.88.99.0/24",
    "Teredo": "2001::/32",
    "reserved": "192.0.0.0/24 192.0.2.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 "
    "100::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16",
}
"""Networks outside the public internet (IANA's registries of special-purpose addresses). The first that holds an
address names it."""

_NAMED = [(kind, ip_network(text)) for kind, texts in _SPECIAL.items() for text in texts.split()]
_GLOBAL_V6 = ip_network("2000::/3")


def networks(texts: Sequence[str]) -> list[Network]:
    """Parses networks. Raises ValueError for a text that is not a network."""
    return [ip_network(text) for text in texts]


def refused(address: str, granted: Sequence[Network]) -> str | None:
    """Returns why no request may go to `address`; None if it may."""
    return _refused(ip_address(address), granted)


def _refused(address: Address, granted: Sequence[Network]) -> str | None:
    if any(_holds(network, address) for network in granted):
        wrapped = _wrapped(address) if isinstance(address, IPv6Address) else None
        return _refused(wrapped, granted) if wrapped is not None else None
    for kind, network in _NAMED:
        if _holds(network, address):
            return kind
    return None if address.version == 4 or _holds(_GLOBAL_V6, address) else "reserved"


def _holds(network: Network, address: Address) -> bool:
    return network.version == address.version and int(network.network_address) <= int(address) <= int(
        network.broadcast_address
    )


def _wrapped(address: IPv6Address) -> IPv4Address | None:
    """Returns the IPv4 address that this IPv6 address wraps, or None."""
    number = int(address)
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if number >> 32 in (0xFFFF, 0xFFFF0000, 0x64FF9B << 64) or (number >> 32 == 0 and number > 1):
        return IPv4Address(number & 0xFFFFFFFF)
    return None
