"""A web address is read in one way or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.capabilities.http.urls import MAX_URL, has_dot_segments, host_form, is_inside, joined, parse_url
from demiurge.errors import InvalidValue


@pytest.mark.parametrize(
    ("text", "origin", "target"),
    [
        ("http://example.com", ("http", "example.com", 80), "/"),
        ("HTTPS://EXAMPLE.com./a%20b?c=d#e", ("https", "example.com", 443), "/a%20b?c=d"),
        ("http://example.com:8080?x", ("http", "example.com", 8080), "/?x"),
        ("http://bücher.example/ö", ("http", "xn--bcher-kva.example", 80), "/%C3%B6"),
        ("http://BÜCHER.example", ("http", "xn--bcher-kva.example", 80), "/"),
        ("http://\uff45xample\u3002com", ("http", "example.com", 80), "/"),
        ("http://[2001:DB8::0:1]:81/", ("http", "2001:db8::1", 81), "/"),
        ("http://192.0.2.1/", ("http", "192.0.2.1", 80), "/"),
    ],
)
def test_an_address_has_one_form(text: str, origin: tuple[str, str, int], target: str) -> None:
    url = parse_url(text)
    assert (url.origin, url.target) == (origin, target)
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "//example.com/",
        "file:///etc/passwd",
        "ftp://example.com",
        "http:/example.com",
        "http:example.com",
        "http://",
        "http:///path",
        "http://user@example.com/",
        "http://good.example@evil.example/",
        "http://good.example\\@evil.example/",
        "http://good.example\\.evil.example/",
        "http://good.example%2eevil.example/",
        "http://good.example%00.evil.example/",
        "http://example.com:/x:80",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:80:80/",
        "http://exa mple.com/",
        "http://example.com/a b",
        "http://example.com/\r\nHost: evil",
        "http://example.com/\u2028",
        "\thttp://example.com/",
        "http://example..com/",
        "http://-a.example/",
        "http://a!b.example/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.0.0.1.0/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[fe80::1%25lo]/",
        "http://[v1.a]/",
        "http://straße.example/",
        "http://a\u200db.example/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "ü" * 5000 + ".example/",
        "http://example.com/" + "a" * 9000,
        "http://example.com/" + "ü" * 8000,
    ],
)
def test_an_ambiguous_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        parse_url(text)
    assert raised.value.code == "invalid_url"
    assert not text or text not in str(raised.value)


CHARACTERS = st.sampled_from([*"ab.:/\\@?#%[]0127-_ ", "é", "。", "\n", "http://", "xn--"])


@given(st.lists(CHARACTERS, max_size=20).map("".join))
def test_other_url_parsers_read_the_same_host_in_an_accepted_address(text: str) -> None:
    """Another reader of the same text must not come to another server."""
    try:
        url = parse_url(f"http://{text}")
    except InvalidValue:
        return
    assert parse_url(str(url)) == url
    split, other = urlsplit(str(url)), httpx.URL(str(url))
    assert split.hostname == other.raw_host.decode() == url.host
    assert (split.port or 80) == (other.port or 80) == url.port


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("b", "http://example.com/x/b"),
        ("/b?c", "http://example.com/b?c"),
        ("//other.example", "http://other.example/"),
        ("https://example.com/ü", "https://example.com/%C3%BC"),
        ("?q", "http://example.com/x/a?q"),
    ],
)
def test_joined_resolves_the_location_of_a_redirect(location: str, leads_to: str) -> None:
    assert str(joined(parse_url("http://example.com/x/a"), location)) == leads_to


@pytest.mark.parametrize("location", ["", "mailto:a@b", "http://[::1", "\\\\evil.example", "/a\nb", "http://a@b/"])
def test_a_redirect_to_nowhere(location: str) -> None:
    if location:
        with pytest.raises(InvalidValue):
            joined(parse_url("http://example.com/x"), location)
    else:
        assert str(joined(parse_url("http://example.com/x"), location)) == "http://example.com/x"


@pytest.mark.parametrize(
    "path",
    [
        "/a/../b",
        "/..",
        "/a/./b",
        "/a/%2e%2e/b",
        "/a/%2E./b",
        "/a/%252e%252e/b",
        "/a/%25252e%25252e/b",
        "/a/%2525252e%2525252e/b",
        "/a/..%2fb",
        "/a/..%5cb",
        "/a/..;x=y/b",
        "/a/%2e%2e%3b/b",
    ],
)
def test_segments_that_climb_are_seen_however_they_are_written(path: str) -> None:
    assert has_dot_segments(path)


@pytest.mark.parametrize("path", ["/", "/a/b", "/a..b/...", "/a%20b", "/.well-known/x", "/100%"])
def test_plain_paths_do_not_climb(path: str) -> None:
    assert not has_dot_segments(path)


def test_a_path_that_is_encoded_too_often_counts_as_one_that_climbs() -> None:
    assert not has_dot_segments("/a%252541")
    assert has_dot_segments("/a%25252541")


def test_a_prefix_holds_whole_segments() -> None:
    assert is_inside("/a", "/a")
    assert is_inside("/a/b", "/a")
    assert is_inside("/a/b", "/a/")
    assert is_inside("/b", "/")
    assert not is_inside("/ab", "/a")
    assert not is_inside("/", "/a")


def test_a_host_has_one_form() -> None:
    assert host_form("EXAMPLE.com.") == host_form("example.COM") == "example.com"
    assert host_form("[::0001]") == "::1"


def refusal(make: Callable[[], object]) -> tuple[str, str, str]:
    with pytest.raises(InvalidValue) as caught:
        make()
    return caught.value.path, caught.value.code, caught.value.message


def test_a_refusal_says_where_and_why() -> None:
    here = parse_url("http://a.example/")
    for location in ("http://[::1/", "http://b.example/\n"):
        assert refusal(partial(joined, here, location)) == ("url", "invalid_url", "url: can't be read")
    for host in ("[1::2::3]", "[X::1]"):
        told = refusal(partial(host_form, host))
        assert told == ("url", "invalid_url", "url: has a malformed address")
    two_names = "url: has a host that must be written in its xn-- form"
    assert refusal(lambda: host_form("straße.example")) == ("url", "invalid_url", two_names)


def test_a_host_is_as_long_as_a_name_may_be() -> None:
    longest = ".".join(["a" * 63] * 3 + ["a" * 62])
    assert (len(longest), host_form(longest)) == (254, longest)
    assert refusal(lambda: host_form(longest + "a"))[2] == "url: has a malformed host"


def test_a_prefix_with_a_slash_is_the_same_prefix() -> None:
    assert is_inside("docs/a", "docs/")
    assert is_inside("docs/a", "docs")
    assert not is_inside("docsX/a", "docsX/XX")
    assert is_inside("docsX/a", "docsX")
    assert not is_inside("docs/a", "docsX")


@pytest.mark.parametrize(("port", "is_one"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_a_port_is_from_1_to_65535(port: int, is_one: bool) -> None:
    text = f"http://a.example:{port}/"
    if is_one:
        assert parse_url(text).port == port
    else:
        assert refusal(lambda: parse_url(text))[2] == "url: has a port that does not exist"


def test_an_address_is_as_long_as_it_may_be_before_and_after_it_is_written_out() -> None:
    start = "http://a.example/"
    longest = start + "a" * (MAX_URL - len(start))
    assert len(str(parse_url(longest))) == MAX_URL
    assert refusal(lambda: parse_url(longest + "a"))[2] == "url: is not a plain http or https address"
    spread = "/" + "\u00f6" * ((MAX_URL - 1) // 6)
    spread += "a" * (MAX_URL - 1 - 6 * ((MAX_URL - 1) // 6))
    assert len(parse_url(f"http://a{spread}").target) == MAX_URL
    assert refusal(lambda: parse_url(f"http://a{spread}a"))[2] == "url: is too long"


def test_a_malformed_host_is_said() -> None:
    for host in ("a..b", "-a", "a" * 64):
        assert refusal(lambda host=host: host_form(host))[2] == "url: has a malformed host"  # type: ignore[misc]
    words = "url: has an address that is not four decimal numbers"
    assert refusal(lambda: host_form("1.2.3"))[2] == words
