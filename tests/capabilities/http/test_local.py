"""`LocalHttp` against real servers: what it sends, what it refuses, and what it never shows."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.world.effects.certificates import certificate
from tests.world.effects.servers import SeenRequest, http_response, serving_site
from tests.world.effects.test_http import leading_to, moved

from demiurge import ToolContext, ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.capabilities import LocalHttp
from demiurge.errors import InvalidValue
from demiurge.tools.capabilities import HttpAccess, SecretName
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError

CANARY = "canary-0123456789-abcdef"
ROBOT = SecretName("web/robot", 1)
LOOPBACK = ("127.0.0.0/8",)


def local(*hosts: str, port: int, **more: Any) -> HttpAccess:
    given = {"schemes": ("http",), "ports": (port,), "internal_networks": LOOPBACK, **more}
    return LocalHttp(hosts or ("127.0.0.1",), **given)


async def denial(http: HttpAccess, url: str, method: str = "GET", **more: Any) -> str:
    with pytest.raises(ToolFailure) as raised:
        await http.request(method, url, **more)
    assert raised.value.error_code is ToolErrorCode.POLICY_DENIED
    assert raised.value.message
    return raised.value.message


# -- requests and answers ----------------------------------------------------------------------------------------------


async def test_a_request_and_its_answer() -> None:
    found = http_response(201, b"made", content_type="text/plain", set_cookie="session=1")
    async with serving_site({"/a": found}) as there:
        http = local(port=there.port)
        answer = await http.request("post", f"http://127.0.0.1:{there.port}/a?b", headers={"X-Mine": "1"}, body=b"new")
        assert (answer.status, answer.body, answer.url) == (201, b"made", f"http://127.0.0.1:{there.port}/a?b")
        assert dict(answer.headers) == {"content-length": "4", "content-type": "text/plain"}
        [asked] = there.asked
        assert (asked.method, asked.body, asked.headers["x-mine"]) == ("POST", b"new", "1")


async def test_https_goes_to_the_address_and_proves_the_name(tmp_path: Path) -> None:
    resolver, _ = leading_to(["127.0.0.1"])
    server, trust = certificate("proved.example", tmp_path)
    async with serving_site({"/": http_response(200, b"proved")}, tls=server) as there:
        http = LocalHttp(
            ["proved.example", "other.example"],
            ports=[there.port],
            internal_networks=LOOPBACK,
            tls=trust,
            resolve=resolver,
        )
        assert (await http.request("GET", f"https://proved.example:{there.port}/")).body == b"proved"
        with pytest.raises(ToolUserError, match=r"could not prove that it is other\.example"):
            await http.request("GET", f"https://other.example:{there.port}/")


async def test_an_answer_that_is_too_large_or_a_body_that_is_too_large_is_a_failure() -> None:
    async with serving_site({"/": http_response(200, b"x" * 101)}) as there:
        http = local(port=there.port, max_bytes=100)
        with pytest.raises(ToolUserError, match="larger than 100 bytes"):
            await http.request("GET", f"http://127.0.0.1:{there.port}/")
        with pytest.raises(ToolUserError, match="larger than 100 bytes"):
            await http.request("POST", f"http://127.0.0.1:{there.port}/", body=b"x" * 101)
        assert len(there.asked) == 1, "the second was not sent"


async def test_a_broken_connection_leaves_a_change_in_doubt_and_a_read_failed() -> None:
    async def drop(_asked: SeenRequest, _writer: Any) -> None:
        return None

    async with serving_site({"/": drop}) as there:
        http, url = local(port=there.port), f"http://127.0.0.1:{there.port}/"
        with pytest.raises(ToolFailure) as raised:
            await http.request("POST", url)
        assert raised.value.error_code is ToolErrorCode.UNKNOWN_OUTCOME
        for method, headers in (("GET", None), ("POST", {"Idempotency-Key": "k1"})):
            with pytest.raises(ToolUserError, match="connection broke"):
                await http.request(method, url, headers=headers)


async def test_a_server_that_does_not_answer_is_a_failure_after_the_time_limit() -> None:
    async def stall(_asked: SeenRequest, _writer: Any) -> None:
        await never.wait()

    never = asyncio.Event()
    async with serving_site({"/": stall}) as there:
        http = local(port=there.port, timeout=0.05)
        with pytest.raises(ToolUserError, match="in time"):
            await http.request("GET", f"http://127.0.0.1:{there.port}/", timeout_s=300)
        never.set()


# -- where requests may go ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://evil.example/", "only to these hosts: api.example"),
        ("https://api.example.evil.example/", "only to these hosts"),
        ("https://sub.api.example/", "only to these hosts"),
        ("https://api.example@evil.example/", "not a plain http or https URL"),
        ("https://api.example\\@evil.example/", "not a plain http or https URL"),
        ("http://api.example/", "Only these schemes are allowed: https"),
        ("https://api.example:8443/", "Only these ports are allowed: 443"),
        ("ftp://api.example/", "not a plain http or https URL"),
        ("file:///etc/passwd", "not a plain http or https URL"),
        ("https://api.example/v1/../admin", "Only these paths"),
        ("https://api.example/v1/%2e%2e/admin", "Only these paths"),
        ("https://api.example/v10", "Only these paths"),
    ],
)
async def test_a_url_outside_of_what_is_allowed_is_denied_with_the_reason(url: str, why: str) -> None:
    resolver, names = leading_to(["93.184.216.34"])
    http = LocalHttp(["api.example"], path_prefixes=["/v1"], resolve=resolver)
    assert why in await denial(http, url)
    assert names == []


async def test_methods_headers_and_redirects_are_limited() -> None:
    resolver, names = leading_to(["93.184.216.34"])
    http = LocalHttp(["api.example"], methods=["get"], max_redirects=2, resolve=resolver)
    assert "Only these methods are allowed: GET" in await denial(http, "https://api.example/", "POST")
    assert "At most 2 redirects" in await denial(http, "https://api.example/", max_redirects=3)
    for name, value in (("Host", "evil.example"), ("Content-Length", "0"), ("X-Mine", "a\r\nHost: b"), ("a b", "c")):
        assert "A header is not allowed" in await denial(http, "https://api.example/", headers={name: value})
    for name in ("Authorization", "Cookie", "X-Api-Key"):
        assert "takes a SecretName" in await denial(http, "https://api.example/", headers={name: CANARY})
    assert names == []


PRIVATE_SPELLINGS = [
    *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001"),
    *("127.0.0.1.", "127.000.000.001", "0.0.0.0", "0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
    *("169.254.169.254", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[fe80::1]"),
    *("[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:0:0:0:0:80ff:fffe]", "[::ffff:0:127.0.0.1]"),
    *("\uff11\uff12\uff17.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "[::ffff:a9fe:a9fe]"),
]


@pytest.mark.parametrize("host", PRIVATE_SPELLINGS)
async def test_no_spelling_of_a_private_address_is_asked_even_if_the_program_names_that_host(host: str) -> None:
    async with serving_site({"/": http_response(200, b"inside")}) as there:
        try:
            http = LocalHttp([host], schemes=["http"], ports=[there.port])
        except InvalidValue:  # a spelling that only some resolvers read as an address
            http = LocalHttp(["api.example"], schemes=["http"], ports=[there.port])
        assert await denial(http, f"http://{host}:{there.port}/")
        assert there.asked == []


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.9.8.7", "169.254.169.254", "0.0.0.0", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fd00::1"],
)
async def test_a_name_that_leads_to_a_private_address_is_denied(address: str) -> None:
    resolver, names = leading_to([address])
    http = LocalHttp(["innocent.example"], resolve=resolver)
    assert "innocent.example leads to" in await denial(http, "https://innocent.example/")
    assert names == ["innocent.example"]


async def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to() -> None:
    resolver, names = leading_to(["127.0.0.2"], ["127.0.0.1"])
    async with (
        serving_site({"/": http_response(200, b"checked")}, host="127.0.0.2") as checked,
        serving_site({"/": http_response(200, b"inside")}, port=checked.port) as inside,
    ):
        http = local("rebound.example", port=checked.port, internal_networks=["127.0.0.2/32"], resolve=resolver)
        url = f"http://rebound.example:{checked.port}/"
        assert (await http.request("GET", url)).body == b"checked"
        assert names == ["rebound.example"]
        assert "leads to a loopback address" in await denial(http, url)
        assert inside.asked == []


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:127.0.0.1]/",
        "http://2130706433/",
        "http://127.0.0.3:{port}/",
        "//evil.example/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://127.0.0.1:{other}/",
    ],
)
async def test_no_redirect_leads_to_where_a_request_may_not_go(location: str) -> None:
    async with serving_site({}) as other, serving_site({}) as there:
        there.answers["/"] = moved(302, location.format(port=there.port, other=other.port))
        http = local(port=there.port)
        assert "redirect" in await denial(http, f"http://127.0.0.1:{there.port}/", max_redirects=5)
        assert (len(there.asked), other.asked) == (1, [])


async def test_a_redirect_to_a_name_that_leads_to_a_private_address_is_denied() -> None:
    resolver, _ = leading_to(["127.0.0.2"], ["10.0.0.1"])
    async with serving_site({}, host="127.0.0.2") as there:
        there.answers["/"] = moved(302, f"http://inside.example:{there.port}/")
        http = local("a.example", "inside.example", port=there.port, resolve=resolver)
        url = f"http://a.example:{there.port}/"
        assert "inside.example leads to a private address" in await denial(http, url, max_redirects=1)


async def test_the_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_site({"/": http_response(200)}) as there, serving_site({}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await local(port=there.port).request("GET", f"http://127.0.0.1:{there.port}/")
        assert (len(there.asked), proxy.asked) == (1, [])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"hosts": "api.example.com"}, r"write \['api.example.com'\]"),
        ({"hosts": []}, "at least one host"),
        ({"hosts": ["*.example.com"]}, "no complete host name"),
        ({"hosts": ["https://api.example.com"]}, "no complete host name"),
        ({"hosts": ["api.example.com:8443"]}, "no complete host name"),
        ({"schemes": ["ftp"]}, "'ftp' is none of http, https"),
        ({"methods": ["TRACE"]}, "'TRACE' is none of"),
        ({"max_bytes": 2**40}, "from 0 to 16777216"),
        ({"max_redirects": 11}, "from 0 to 10"),
        ({"timeout": 0}, "at most 300 seconds"),
        ({"internal_networks": ["office"]}, "such as 10.1.0.0/16"),
    ],
)
def test_an_argument_that_cannot_be_is_refused(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        LocalHttp(**{"hosts": ["api.example.com"], **arguments})


# -- secrets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secrets",
    [
        {"web/robot": CANARY},
        {"web/robot@1": CANARY, "web/robot": "another"},
        lambda name: CANARY if name == ROBOT else None,
    ],
    ids=["alias", "version", "function"],
)
async def test_a_secret_is_put_into_the_request_that_is_sent_and_masked_in_the_answer(secrets: Any) -> None:
    async def echo(asked: SeenRequest, writer: Any) -> None:
        said = asked.headers["authorization"].encode()
        writer.write(http_response(200, said, x_echo=said.decode()))
        await writer.drain()

    async with serving_site({"/": echo}) as there:
        headers: Mapping[str, str | SecretName] = {"Authorization": ROBOT}
        http = local(port=there.port, secrets=secrets)
        answer = await http.request("GET", f"http://127.0.0.1:{there.port}/", headers=headers)
        assert there.asked[0].headers["authorization"] == f"Bearer {CANARY}"
        assert (answer.body, answer.headers["x-echo"]) == (b"Bearer [secret]", "Bearer [secret]")
        assert dict(headers) == {"Authorization": ROBOT}


async def test_a_secret_is_in_no_error_log_or_representation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving_site({}) as there:
        port = there.port
    http = local(port=port, secrets={"web/robot": CANARY, "web/odd": f"{CANARY}\n"})
    shown = [repr(http), str(vars(http)["_grant"])]
    for alias in ("web/robot", "web/odd"):
        with pytest.raises(ToolUserError) as raised:
            await http.request("POST", f"http://127.0.0.1:{port}/", headers={"x-robot": SecretName(alias, 1)})
        shown += traceback.format_exception(raised.value)
    assert CANARY not in "".join([*shown, caplog.text])


async def test_a_secret_without_a_value_is_a_failure_and_nothing_is_sent() -> None:
    async with serving_site({"/": http_response(200)}) as there:
        for secrets in (None, {"other": CANARY}, {"web/robot": ""}, lambda _: None):
            http = local(port=there.port, secrets=secrets)
            with pytest.raises(ToolUserError, match="web/robot@1 has no value"):
                await http.request("GET", f"http://127.0.0.1:{there.port}/", headers={"x-robot": ROBOT})
        assert there.asked == []


async def test_a_secret_does_not_follow_a_redirect_to_another_host() -> None:
    resolver, _ = leading_to(["127.0.0.1"])
    async with serving_site({"/b": http_response(200)}) as there:
        there.answers["/"] = moved(302, f"http://b.example:{there.port}/b")
        http = local("a.example", "b.example", port=there.port, secrets={"web/robot": CANARY}, resolve=resolver)
        url = f"http://a.example:{there.port}/"
        answer = await http.request("GET", url, headers={"authorization": ROBOT}, max_redirects=1)
        assert answer.status == 200
        assert [asked.headers.get("authorization") for asked in there.asked] == [f"Bearer {CANARY}", None]


# -- in a runner -------------------------------------------------------------------------------------------------------


@tool(effect=ToolEffect.READ_ONLY, capabilities=(HttpAccess,))
async def fetch(url: str, context: ToolContext) -> str:
    """Fetches a page."""
    http = context.resources.get(HttpAccess)
    assert http is not None
    return (await http.request("GET", url)).body.decode()


async def test_a_tool_of_a_runner_reads_what_it_may_and_the_model_is_told_why_not() -> None:
    async with serving_site({"/": http_response(200, b"hello")}) as there:
        runner = ToolRunner([fetch], policy=ToolPolicy(("fetch",)), resources={HttpAccess: local(port=there.port)})
        result = await runner.exec("fetch", {"url": f"http://127.0.0.1:{there.port}/"})
        assert result.content == "hello"
        refused = await runner.exec("fetch", {"url": "http://169.254.169.254/latest/meta-data/"})
        assert refused.error_code == "policy_denied"
        assert "Only these ports" in str(refused.safe_message)
