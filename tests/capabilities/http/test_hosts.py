"""A user's list of permitted hosts is read in one form, or refused with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.capabilities.http.hosts import checked_hosts, origin_of
from demiurge.capabilities.http.rules import http_problem
from demiurge.capabilities.http.urls import parse_url
from demiurge.errors import InvalidValue


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("api.example.com", "api.example.com"),
        ("API.Example.COM.", "api.example.com"),
        ("api.example.com:443", "api.example.com"),
        ("host.example:8443", "host.example:8443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("93.184.216.34", "93.184.216.34"),
        ("2606:2800:220:1::1", "[2606:2800:220:1::1]"),
        ("[2606:2800:220:1::1]:8443", "[2606:2800:220:1::1]:8443"),
    ],
)
def test_a_host_is_read_in_one_form(written: str, read: str) -> None:
    assert checked_hosts([written]) == (read,)


def test_equal_hosts_are_one_and_the_order_does_not_matter() -> None:
    assert checked_hosts(["b.example", "a.example", "A.example."]) == ("a.example", "b.example")
    assert checked_hosts([]) == ()


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("https://api.example.com", "has a scheme: write the host alone"),
        ("*.example.com", "has a wildcard: name each host"),
        ("*", "has a wildcard"),
        ("me@api.example.com", "has a user name"),
        ("api.example.com/v1", "has a path"),
        ("api.example.com?x=1", "has a query"),
        ("api.example.com#x", "has a fragment"),
        ("", "write one such as"),
        (".", "write one such as"),
        ("api example.com", "write one such as"),
        ("api.example.com\\x", "write one such as"),
        ("api.example.com:0", "write one such as"),
        ("api.example.com:65536", "write one such as"),
        ("api.example.com:", "write one such as"),
        ("a..b", "write one such as"),
        ("faß.example", "must be written in its xn-- form"),
        ("0x7f.1", "write one such as"),
        ("localhost", "is this machine"),
        ("x.localhost:8443", "is this machine"),
        ("127.0.0.1", "is a loopback address"),
        ("10.0.0.7:8443", "is a private address"),
        ("169.254.169.254", "is a link-local address"),
        ("::1", "is a loopback address"),
        ("::ffff:10.0.0.7", "IPv4-mapped address"),
        (7, "is no text"),
        (None, "is no text"),
    ],
)
def test_a_host_that_cannot_be_permitted_is_refused_with_what_to_write(written: Any, told: str) -> None:
    with pytest.raises(InvalidValue, match=told) as refused:
        checked_hosts(["api.example.com", written])
    assert refused.value.code == "bad_host"


def test_a_text_is_no_list_of_hosts() -> None:
    with pytest.raises(InvalidValue, match=r"write a list such as \['api\.example\.com'\]"):
        checked_hosts("api.example.com")


def test_a_number_is_no_list_of_hosts() -> None:
    with pytest.raises(InvalidValue, match=r"no list: write one such as \['api\.example\.com'\]") as refused:
        checked_hosts(7)  # type: ignore[arg-type]
    assert refused.value.code == "bad_host"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://api.example.com/v1?x=1", None),
        ("https://API.example.com./v1", None),
        ("https://api.example.com:443/", None),
        ("https://host.example:8443/", None),
        ("https://host.example/", "host_not_allowed"),
        ("https://api.example.com:8443/", "host_not_allowed"),
        ("http://api.example.com/", "host_not_allowed"),
        ("http://api.example.com:443/", "host_not_allowed"),
        ("https://api.example.com.evil.example/", "host_not_allowed"),
        ("https://evil.example/?api.example.com", "host_not_allowed"),
        ("https://sub.api.example.com/", "host_not_allowed"),
    ],
)
def test_a_grant_of_origins_covers_these_hosts_by_https_at_these_ports(url: str, problem: str | None) -> None:
    grant = {"origins": [origin_of(host) for host in checked_hosts(["api.example.com", "host.example:8443"])]}
    assert http_problem(grant, "GET", parse_url(url)) == problem
