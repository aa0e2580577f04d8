"""The options of a server: how many connections are for whom, and the address of its pages."""

from __future__ import annotations

import pytest

from demiurge.server.options import ConnectionLimits, ServeOptions


@pytest.mark.parametrize(("most", "anonymous", "at_address"), [(7, 3, 0), (8, 4, 1), (17, 8, 2), (4096, 2048, 512)])
def test_half_of_the_connections_may_be_anonymous_and_an_eighth_from_one_address(
    most: int, anonymous: int, at_address: int
) -> None:
    limits = ConnectionLimits(most=most)
    assert (repr(limits.anonymous), repr(limits.anonymous_at_address)) == (str(anonymous), str(at_address))


@pytest.mark.parametrize(
    ("options", "url"),
    [
        (ServeOptions(), "http://127.0.0.1:7777"),
        (ServeOptions(host="box.example", port=80, tls=True), "https://box.example:80"),
        (ServeOptions(host="::1"), "http://[::1]:7777"),
        (ServeOptions(host="0.0.0.0", names=("one.example", "two.example")), "http://one.example:7777"),
        (ServeOptions(host="0.0.0.0"), None),
        (ServeOptions(host="::"), None),
    ],
)
def test_the_pages_are_at_the_first_name_or_at_the_host(options: ServeOptions, url: str | None) -> None:
    assert options.page_url == url
