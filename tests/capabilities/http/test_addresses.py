"""Which addresses are the public internet, checked against another list of the same thing."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.capabilities.http.addresses import networks, refused

V4 = st.integers(0, 2**32 - 1).map(IPv4Address)
GLOBAL_V6 = ip_network("2000::/3")
V6 = st.one_of(
    st.integers(0, 2**128 - 1), st.integers(int(GLOBAL_V6.network_address), int(GLOBAL_V6.broadcast_address))
).map(IPv6Address)
EVERYTHING = networks(["0.0.0.0/0", "::/0"])


@given(st.one_of(V4, V6))
def test_an_allowed_address_is_public_for_the_ipaddress_module(address: IPv4Address | IPv6Address) -> None:
    if refused(str(address), []) is None:
        special = [address.is_private, address.is_loopback, address.is_link_local, address.is_multicast]
        assert (address.is_global, *special, address.is_unspecified, address.is_reserved) == (True, *[False] * 6)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "100.63.255.255", "172.32.0.1", "2606:4700::1111"])
def test_the_public_internet_is_allowed(address: str) -> None:
    assert refused(address, []) is None


@given(V4, st.sampled_from(["::ffff:0:0", "64:ff9b::", "::ffff:0:0:0", "::"]))
def test_a_wrapped_address_is_never_freer_than_what_it_wraps(address: IPv4Address, prefix: str) -> None:
    wrapped = IPv6Address(int(ip_address(prefix)) + int(address))
    assert refused(str(wrapped), []) is not None
    named = networks([f"{prefix}/96"])
    assert int(address) < 2 or refused(str(wrapped), named) == refused(str(address), named)


@given(st.one_of(V4, V6))
def test_a_grant_of_all_networks_allows_every_address(address: IPv4Address | IPv6Address) -> None:
    assert refused(str(address), EVERYTHING) is None


def test_a_network_is_written_exactly() -> None:
    with pytest.raises(ValueError, match="host bits"):
        networks(["10.0.0.1/8"])
