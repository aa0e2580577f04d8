"""`http.request` against real servers: what it asks, what it takes, and what it does when things break."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.world.effects.certificates import certificate
from tests.world.effects.effect_asker import Asker, asking_manifest, effect_asker, interrupt_effect
from tests.world.effects.servers import SeenRequest, http_response, serving_site
from tests.world.small_world import SECOND, START_NS, A

from demiurge.capabilities.http.guarded import GuardedHttp, Resolve, resolve
from demiurge.stores import MemoryStore, Store
from demiurge.values.article import with_article
from demiurge.values.clock import FixedClock
from demiurge.values.refs import Ref
from demiurge.world.effects.http import HttpRequests
from demiurge.world.history.verify import verify
from demiurge.world.secrets import Secrets

LOOPBACK: Mapping[str, Any] = {"internal_networks": ["127.0.0.0/8"]}
ROBOT = {"$tag": "secret", "$value": {"alias": "web/robot", "version": 1}}
CANARY = "canary-0123456789"
SECRET_DEFINITION = {"$kind": "defsecret", "name": "web/robot@1", "binding_id": "env:ROBOT"}


def literal(text: str) -> dict[str, str]:
    return {"$tag": "literal", "$value": text}


KEY = {"Idempotency-Key": literal("k1")}


def adapter(**more: Any) -> HttpRequests:
    return HttpRequests(Secrets({"ROBOT": CANARY}), FixedClock(START_NS, SECOND), GuardedHttp(**more))


def leading_to(*answers: list[str]) -> tuple[Resolve, list[str]]:
    """A resolver with one answer after the other, and the names that it was asked for."""
    script, names = list(answers), list[str]()

    async def resolver(host: str, port: int) -> list[str]:
        names.append(host)
        return script.pop(0) if len(script) > 1 else script[0]

    return resolver, names


def body(asker: Asker, payload: Mapping[str, Any]) -> bytes:
    return asker.host.get_blob(Ref(payload["body_ref"])) if payload["body_ref"] else b""


# -- what is asked and taken -------------------------------------------------------------------------------------------


async def test_a_request_and_its_receipt(store: Store) -> None:
    found = http_response(200, b"hello", content_type="text/plain", set_cookie="session=1")
    async with serving_site({"/a": found}) as there, effect_asker(store, [adapter()], {"http.out": LOOPBACK}) as asker:
        url = f"http://127.0.0.1:{there.port}/a?b=c#d"
        payload = await asker.payload("http.request", method="get", url=url, headers={"X-Mine": literal("yes")})
        assert body(asker, payload) == b"hello"
        assert dict(payload) | {"body_ref": None} == {
            "status": 200,
            "url": f"http://127.0.0.1:{there.port}/a?b=c",
            "headers": {"content-length": "5", "content-type": "text/plain"},
            "body_ref": None,
            "size": 5,
            "timings": {"start_ns": START_NS, "end_ns": START_NS + SECOND},
        }
        [asked] = there.asked
        assert (asked.method, asked.target, asked.body) == ("GET", "/a?b=c", b"")
        assert asked.headers == {
            "host": f"127.0.0.1:{there.port}",
            "accept": "*/*",
            "user-agent": "demiurge",
            "x-mine": "yes",
            "accept-encoding": "gzip, deflate",
            "connection": "close",
        }
        assert verify(store).ok
        assert [state.seq for state in asker.host.replay()]
        assert len(there.asked) == 1, "a replay asks nobody"


async def test_a_body_is_sent_by_its_address_and_only_if_the_unit_was_given_it(memory: MemoryStore) -> None:
    async with (
        serving_site({"/": http_response(201)}) as there,
        effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker,
    ):
        url = f"http://127.0.0.1:{there.port}"
        ref = await asker.give(b"posted")
        payload = await asker.payload("http.request", method="POST", url=url, body_ref=ref)
        assert (payload["status"], payload["body_ref"], payload["size"]) == (201, None, 0)
        secret = await asker.host.put_blob(b"secret")
        assert await asker.code("http.request", method="POST", url=url, body_ref=secret) == "not_found"
        assert [asked.body for asked in there.asked] == [b"posted"]


@pytest.mark.parametrize("status", [400, 404, 500, 304, 204])
async def test_every_http_status_of_a_server_is_a_result(memory: MemoryStore, status: int) -> None:
    async with (
        serving_site({"/": http_response(status)}) as there,
        effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker,
    ):
        payload = await asker.payload("http.request", method="GET", url=f"http://127.0.0.1:{there.port}")
        assert payload["status"] == status


async def test_the_answer_to_a_head_has_no_body_and_keeps_its_headers(memory: MemoryStore) -> None:
    found = b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\ncontent-encoding: gzip\r\n\r\n"
    async with serving_site({"/": found}) as there, effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker:
        payload = await asker.payload("http.request", method="HEAD", url=f"http://127.0.0.1:{there.port}")
        assert (payload["headers"]["content-length"], payload["size"]) == ("99", 0)


@pytest.mark.parametrize("target", ["/a/../b", "/a/./b?c=../d", "/%7Ea/%2e", "//a", "/a;b,c|d{e}'\"", "/?"])
async def test_the_very_path_that_was_checked_is_sent(memory: MemoryStore, target: str) -> None:
    async with serving_site({}) as there, effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker:
        await asker.payload("http.request", method="GET", url=f"http://127.0.0.1:{there.port}{target}")
        assert [asked.target for asked in there.asked] == [target]


# -- secrets -----------------------------------------------------------------------------------------------------------


async def test_a_secret_is_sent_and_never_stored(memory: MemoryStore) -> None:
    async def echo(asked: SeenRequest, writer: Any) -> None:
        writer.write(
            http_response(200, f"you said {asked.headers['authorization']}".encode(), x_echo=asked.headers["x-key"])
        )

    manifest = asking_manifest({"http.out": {**LOOPBACK, "secrets": ["web/robot@1"]}}, [SECRET_DEFINITION])
    async with serving_site({"/": echo}) as there, effect_asker(memory, [adapter()], {}, manifest=manifest) as asker:
        url = f"http://127.0.0.1:{there.port}"
        headers = {"authorization": ROBOT, "x-key": ROBOT}
        payload = await asker.payload("http.request", method="GET", url=url, headers=headers)
        assert there.asked[0].headers["authorization"] == f"Bearer {CANARY}"
        assert there.asked[0].headers["x-key"] == CANARY
        assert body(asker, payload) == b"you said Bearer [secret]"
        assert payload["headers"]["x-echo"] == "[secret]"
        stored = [row.data for row in memory.read_all()] + [memory.get_blob(ref) for ref in memory.iter_blobs()]
        assert not any(CANARY.encode() in data for data in stored)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"authorization": literal("Bearer x")}, "literal_secret"),
        ({"Cookie": literal("a=b")}, "literal_secret"),
        ({"X-Api-Key": literal("a")}, "literal_secret"),
        ({"x": ROBOT}, "secret_not_allowed"),
    ],
)
async def test_a_secret_is_named_and_granted(memory: MemoryStore, headers: Any, code: str) -> None:
    async with effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker:
        result = await asker.ask("http.request", method="GET", url="http://127.0.0.1:1", headers=headers)
        assert (result["status"], result["payload"]["code"]) == ("denied", code)


async def test_a_secret_that_is_not_there_is_said_and_nothing_is_sent(memory: MemoryStore) -> None:
    grants = {"http.out": {**LOOPBACK, "secrets": ["web/robot@1"]}}
    async with serving_site({"/": http_response(200)}) as there, effect_asker(memory, [adapter()], grants) as asker:
        url = f"http://127.0.0.1:{there.port}"
        assert await asker.code("http.request", method="GET", url=url, headers={"x": ROBOT}) == "secret_unavailable"
        assert there.asked == []


# -- where a request may go --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.1.2.3", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("10.0.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "carrier-NAT"),
        ("100.127.255.255", "carrier-NAT"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("198.18.0.1", "reserved"),
        ("::1", "loopback"),
        ("::", "unspecified"),
        ("fd00::1", "private"),
        ("fec0::1", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%lo", "link-local"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "IPv4-mapped"),
        ("::ffff:93.184.216.34", "IPv4-mapped"),
        ("::127.0.0.1", "IPv4-compatible"),
        ("64:ff9b::7f00:1", "NAT64"),
        ("64:ff9b::5db8:d822", "NAT64"),
        ("64:ff9b:1::1", "NAT64"),
        ("2002:7f00:1::", "6to4"),
        ("2001:0:1::1", "Teredo"),
        ("2001:db8::1", "reserved"),
        ("4000::1", "reserved"),
    ],
)
async def test_a_name_that_leads_inside_is_refused(memory: MemoryStore, address: str, kind: str) -> None:
    resolver, names = leading_to([address])
    async with effect_asker(memory, [adapter(resolve=resolver)], {"http.out": {}}) as asker:
        result = await asker.ask("http.request", method="GET", url="http://inside.example/")
        assert result["payload"] == {
            "code": "address_refused",
            "message": f"inside.example leads to {with_article(kind)} address.",
        }
        assert names == ["inside.example"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
        "http://127.0.0.1./",
    ],
)
async def test_an_address_inside_is_refused_however_it_is_written(memory: MemoryStore, url: str) -> None:
    resolver, names = leading_to(["93.184.216.34"])
    async with effect_asker(memory, [adapter(resolve=resolver)], {"http.out": {}}) as asker:
        assert await asker.code("http.request", method="GET", url=url) == "address_refused"
        assert names == [], "an address is not looked up"


@pytest.mark.parametrize(
    "granted", [["127.0.0.0/8"], ["::ffff:0:0/96"], ["64:ff9b::/96"], ["::ffff:0:0/96", "64:ff9b::/96", "10.0.0.0/8"]]
)
async def test_a_wrapped_address_needs_both_its_wrapping_and_itself_granted(
    memory: MemoryStore, granted: list[str]
) -> None:
    async with effect_asker(memory, [adapter()], {"http.out": {"internal_networks": granted}}) as asker:
        for url in ("http://[::ffff:127.0.0.1]:1/", "http://[64:ff9b::7f00:1]:1/"):
            assert await asker.code("http.request", method="GET", url=url) == "address_refused"


async def test_a_wrapped_address_that_is_granted_both_ways_is_connected_to(memory: MemoryStore) -> None:
    grant = {"internal_networks": ["::ffff:0:0/96", "127.0.0.0/8"]}
    async with (
        serving_site({"/": http_response(200)}) as there,
        effect_asker(memory, [adapter()], {"http.out": grant}) as asker,
    ):
        url = f"http://[::ffff:127.0.0.1]:{there.port}/"
        assert (await asker.payload("http.request", method="GET", url=url))["status"] == 200


async def test_a_name_is_resolved_once_and_what_was_checked_is_connected_to(memory: MemoryStore) -> None:
    """A name that leads elsewhere at the second look (DNS rebinding) is not looked at twice."""
    resolver, names = leading_to(["127.0.0.2"], ["127.0.0.1"])
    async with (
        serving_site({"/": http_response(200, b"checked")}, host="127.0.0.2") as checked,
        serving_site({"/": http_response(200, b"inside")}, host="127.0.0.1", port=checked.port) as inside,
        effect_asker(
            memory, [adapter(resolve=resolver)], {"http.out": {"internal_networks": ["127.0.0.2/32"]}}
        ) as asker,
    ):
        url = f"http://Rebound.Example:{checked.port}/"
        assert body(asker, await asker.payload("http.request", method="GET", url=url)) == b"checked"
        assert names == ["rebound.example"]
        assert checked.asked[0].headers["host"] == f"rebound.example:{checked.port}"
        assert await asker.code("http.request", method="GET", url=url) == "address_refused", "the next one is checked"
        assert inside.asked == []


async def test_of_several_addresses_only_the_allowed_ones_are_tried(memory: MemoryStore) -> None:
    resolver, _ = leading_to(["127.0.0.1", "127.0.0.3", "127.0.0.2"])
    grant = {"internal_networks": ["127.0.0.2/31"]}
    async with (
        serving_site({"/": http_response(200, b"second")}, host="127.0.0.2") as allowed,
        serving_site({"/": http_response(200)}, host="127.0.0.1", port=allowed.port) as inside,
        effect_asker(memory, [adapter(resolve=resolver)], {"http.out": grant}) as asker,
    ):
        url = f"http://many.example:{allowed.port}/"
        assert body(asker, await asker.payload("http.request", method="GET", url=url)) == b"second"
        assert inside.asked == []


async def test_a_value_that_cannot_be_resolved_or_reached_says_so(memory: MemoryStore) -> None:
    async def lost(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    async with effect_asker(memory, [adapter(resolve=lost)], {"http.out": LOOPBACK}) as asker:
        assert await asker.code("http.request", method="POST", url="http://lost.example") == "name_not_found"
        async with serving_site({}) as there:
            port = there.port
        assert await asker.code("http.request", method="POST", url=f"http://127.0.0.1:{port}") == "connect_failed"


async def test_the_machine_s_own_resolver_names_addresses() -> None:
    assert set(await resolve("localhost", 80)) <= {"127.0.0.1", "::1"}


async def test_no_proxy_of_the_environment_is_used(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        serving_site({"/": http_response(200)}) as there,
        serving_site({}) as proxy,
        effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker,
    ):
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await asker.payload("http.request", method="GET", url=f"http://127.0.0.1:{there.port}")
        assert (len(there.asked), proxy.asked) == (1, [])


# -- https -------------------------------------------------------------------------------------------------------------


async def test_https_goes_to_the_address_and_proves_the_name(memory: MemoryStore, tmp_path: Path) -> None:
    resolver, _ = leading_to(["127.0.0.1"])
    server, trust = certificate("proved.example", tmp_path)
    told: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: told.append(name)
    async with (
        serving_site({"/": http_response(200, b"proved")}, tls=server) as there,
        effect_asker(memory, [adapter(resolve=resolver, tls=trust)], {"http.out": LOOPBACK}) as asker,
    ):
        url = f"https://proved.example:{there.port}/"
        assert body(asker, await asker.payload("http.request", method="GET", url=url)) == b"proved"
        assert told == ["proved.example"]
        other = f"https://other.example:{there.port}/"
        assert await asker.code("http.request", method="POST", url=other) == "tls_failed"
        assert len(there.asked) == 1


async def test_a_server_that_nobody_vouches_for_is_not_asked(memory: MemoryStore, tmp_path: Path) -> None:
    resolver, _ = leading_to(["127.0.0.1"])
    server, _ = certificate("proved.example", tmp_path)
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with (
        serving_site({"/": http_response(200)}, tls=server) as there,
        effect_asker(memory, [adapter(resolve=resolver, tls=nobody)], {"http.out": LOOPBACK}) as asker,
    ):
        url = f"https://proved.example:{there.port}/"
        assert await asker.code("http.request", method="GET", url=url) == "tls_failed"
        assert there.asked == []


# -- redirects ---------------------------------------------------------------------------------------------------------


def moved(status: int, to: str) -> bytes:
    return http_response(status, b"elsewhere", location=to)


async def test_a_redirect_is_an_answer_unless_it_is_to_be_followed(memory: MemoryStore) -> None:
    async with (
        serving_site({"/": moved(302, "/b")}) as there,
        effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker,
    ):
        payload = await asker.payload("http.request", method="GET", url=f"http://127.0.0.1:{there.port}")
        assert (payload["status"], payload["headers"]["location"]) == (302, "/b")
        assert body(asker, payload) == b"elsewhere"


@pytest.mark.parametrize(
    ("status", "method", "then", "sent"),
    [
        (301, "POST", "GET", b""),
        (302, "POST", "GET", b""),
        (303, "PUT", "GET", b""),
        (303, "HEAD", "HEAD", b""),
        (301, "PUT", "PUT", b"body"),
        (307, "POST", "POST", b"body"),
        (308, "POST", "POST", b"body"),
    ],
)
async def test_a_redirect_keeps_the_method_and_the_body_as_its_status_says(
    memory: MemoryStore, status: int, method: str, then: str, sent: bytes
) -> None:
    answers = {"/a": moved(status, "../b?c"), "/b": http_response(200)}
    async with serving_site(answers) as there, effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker:
        ref = await asker.give(b"body") if method != "HEAD" else None
        url = f"http://127.0.0.1:{there.port}/a"
        headers = {"content-type": literal("text/plain")}
        payload = await asker.payload(
            "http.request", method=method, url=url, body_ref=ref, max_redirects=1, headers=headers
        )
        assert payload["url"] == f"http://127.0.0.1:{there.port}/b?c"
        second = there.asked[1]
        assert (second.method, second.target, second.body) == (then, "/b?c", sent)
        assert ("content-type" in second.headers) == (bool(sent) or method == "HEAD")


async def test_nothing_that_says_who_asks_goes_to_another_origin(memory: MemoryStore) -> None:
    manifest = asking_manifest({"http.out": {**LOOPBACK, "secrets": ["web/robot@1"]}}, [SECRET_DEFINITION])
    async with (
        serving_site({"/": http_response(200)}) as other,
        serving_site({"/": moved(302, f"http://127.0.0.1:{other.port}/"), "/same": moved(302, "/")}) as first,
        effect_asker(memory, [adapter()], {}, manifest=manifest) as asker,
    ):
        headers = {"authorization": ROBOT, "x-mine": literal("1"), "accept": literal("text/plain"), **KEY}
        url = f"http://127.0.0.1:{first.port}/same"
        await asker.payload("http.request", method="GET", url=url, headers=headers, max_redirects=2)
        assert [a.headers.get("authorization") for a in first.asked] == [f"Bearer {CANARY}"] * 2
        [asked] = other.asked
        assert not {"authorization", "x-mine"} & set(asked.headers)
        assert (asked.headers["accept"], asked.headers["idempotency-key"]) == ("text/plain", "k1")


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "javascript:alert(1)",
        "//user:pass@127.0.0.1/",
        "http:\\\\127.0.0.1",
        "http://127.0.0.1:99999/",
        "http://127.1/",
        "http://other.example/",
        "http://127.0.0.1:1/x",
        "/secret",
        "http://[::1",
    ],
)
async def test_a_redirect_leads_only_where_a_first_request_may_go(memory: MemoryStore, location: str) -> None:
    async with serving_site({"/open/a": moved(302, location)}) as there:
        grant = {
            **LOOPBACK,
            "hosts": ["127.0.0.1"],
            "path_prefixes": ["/open"],
            "ports": [there.port],
            "schemes": ["http"],
        }
        async with effect_asker(memory, [adapter()], {"http.out": grant}) as asker:
            url = f"http://127.0.0.1:{there.port}/open/a"
            assert await asker.code("http.request", method="GET", url=url, max_redirects=5) == "redirect_refused"
            assert len(there.asked) == 1


async def test_a_redirect_to_an_address_inside_is_refused(memory: MemoryStore) -> None:
    resolver, _ = leading_to(["127.0.0.2"], ["127.0.0.1"])
    async with (
        serving_site({"/": b""}, host="127.0.0.2") as first,
        effect_asker(
            memory, [adapter(resolve=resolver)], {"http.out": {"internal_networks": ["127.0.0.2/32"]}}
        ) as asker,
    ):
        url = f"http://a.example:{first.port}/"
        for location in (f"http://127.0.0.1:{first.port}/", f"http://b.example:{first.port}/"):
            first.answers["/"] = moved(302, location)
            assert await asker.code("http.request", method="GET", url=url, max_redirects=1) == "address_refused"


async def test_https_is_not_left_for_http(memory: MemoryStore, tmp_path: Path) -> None:
    resolver, _ = leading_to(["127.0.0.1"])
    server, trust = certificate("proved.example", tmp_path)
    async with (
        serving_site({"/": http_response(200)}) as plain,
        serving_site({"/": moved(302, f"http://proved.example:{plain.port}/")}, tls=server) as there,
        effect_asker(memory, [adapter(resolve=resolver, tls=trust)], {"http.out": LOOPBACK}) as asker,
    ):
        url = f"https://proved.example:{there.port}/"
        assert await asker.code("http.request", method="GET", url=url, max_redirects=1) == "redirect_refused"
        assert plain.asked == []


async def test_redirects_end(memory: MemoryStore) -> None:
    async with serving_site({"/": moved(302, "/")}) as there:
        url = f"http://127.0.0.1:{there.port}/"
        async with effect_asker(memory, [adapter()], {"http.out": {**LOOPBACK, "max_redirects": 3}}) as asker:
            assert await asker.code("http.request", method="GET", url=url, max_redirects=3) == "too_many_redirects"
            assert len(there.asked) == 4
            assert await asker.code("http.request", method="GET", url=url, max_redirects=4) == "redirects_exceeded"


# -- how much is taken -------------------------------------------------------------------------------------------------


async def ask_for(memory: MemoryStore, found: Any, limit: int = 1000, **grant: Any) -> Mapping[str, Any]:
    async with (
        serving_site({"/": found}) as there,
        effect_asker(memory, [adapter()], {"http.out": {**LOOPBACK, "max_body": limit, **grant}}) as asker,
    ):
        result = await asker.ask("http.request", method="GET", url=f"http://127.0.0.1:{there.port}/", timeout_ms=20_000)
        if result["status"] == "ok":
            return {"body": body(asker, result["payload"])}
        payload: Mapping[str, Any] = result["payload"]
        return payload


gzipped = partial(gzip.compress, mtime=0)
"""The same bytes each time: they are in the names of tests."""


def packed(data: bytes, encoding: str = "gzip") -> bytes:
    return http_response(200, data, content_encoding=encoding)


RAW = zlib.compressobj(wbits=-15)
BARE_DEFLATE = RAW.compress(b"hello") + RAW.flush()


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        (http_response(200, b"x" * 1000), b"x" * 1000),
        (packed(gzipped(b"x" * 1000)), b"x" * 1000),
        (packed(gzipped(b"x" * 500) * 2, "x-gzip"), b"x" * 1000),
        (packed(zlib.compress(b"hello"), "deflate"), b"hello"),
        (packed(BARE_DEFLATE, "deflate"), b"hello"),
        (packed(b"", "gzip"), b""),
        (packed(b"hello", "identity"), b"hello"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", b"hello"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
    ],
)
async def test_a_body_is_unpacked(memory: MemoryStore, found: bytes, taken: bytes) -> None:
    assert await ask_for(memory, found) == {"body": taken}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (http_response(200, b"x" * 1001), "response_too_large"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n", "response_too_large"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1001, "response_too_large"),
        (packed(gzipped(b"x" * 1001)), "response_too_large"),
        (packed(gzipped(b"x" * 600) * 2), "response_too_large"),
        (packed(zlib.compress(b"0" * 50_000_000), "deflate"), "response_too_large"),
        (packed(gzipped(b"") * 200), "response_too_large"),
        (packed(gzipped(b"hello")[:-3]), "bad_encoding"),
        (packed(b"not packed at all"), "bad_encoding"),
        (packed(gzipped(b"hello") + b"rest"), "bad_encoding"),
        (packed(b"x", "br"), "bad_encoding"),
        (packed(gzipped(gzipped(b"x")), "gzip, gzip"), "bad_encoding"),
        (http_response(200, b"", **{f"x_{n}": "y" for n in range(101)}), "headers_too_large"),
        (http_response(200, b"", x="y" * 20_000), "headers_too_large"),
        (http_response(200, b"", x="y" * 200_000), "connection_broken"),
        (b"not http at all\r\n\r\n", "connection_broken"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", "connection_broken"),
        (b"", "connection_broken"),
    ],
)
async def test_a_response_that_is_too_large_or_malformed_is_refused(
    memory: MemoryStore, found: bytes, code: str
) -> None:
    assert (await ask_for(memory, found))["code"] == code
    assert not [row for row in memory.read_all() if b"x" * 500 in row.data]


async def test_an_answer_without_end_is_cut_off_at_the_limit(memory: MemoryStore) -> None:
    sent = 0

    async def endless(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n")
        bomb = gzipped(b"0" * 1_000_000)
        while True:
            writer.write(bomb)
            sent += len(bomb)
            await writer.drain()

    assert (await ask_for(memory, endless, limit=10_000_000))["code"] == "response_too_large"
    assert sent < 10_000_000


async def test_a_body_to_send_is_limited_as_well(memory: MemoryStore) -> None:
    async with (
        serving_site({}) as there,
        effect_asker(memory, [adapter()], {"http.out": {**LOOPBACK, "max_body": 3}}) as asker,
    ):
        ref = await asker.give(b"four")
        url = f"http://127.0.0.1:{there.port}/"
        assert await asker.code("http.request", method="POST", url=url, body_ref=ref) == "body_too_large"
        assert there.asked == []


# -- when things break -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "headers", "code"),
    [("GET", {}, "timeout"), ("POST", KEY, "timeout"), ("POST", {}, "unknown_outcome")],
)
async def test_a_server_that_says_nothing_leaves_a_change_in_doubt(
    memory: MemoryStore, method: str, headers: Any, code: str
) -> None:
    answers: dict[str, Any] = {"/": slow_end}
    async with serving_site(answers) as there, effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker:
        url = f"http://127.0.0.1:{there.port}/"
        found = await asker.code("http.request", method=method, url=url, headers=headers, timeout_ms=1000)
        assert found == code
        assert len(there.asked) == 1


async def slow_end(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
    """Begins an answer and never ends it, until the other side hangs up."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
    await writer.drain()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("method", "headers", "code"),
    [("GET", {}, "connection_broken"), ("POST", KEY, "connection_broken"), ("POST", {}, "unknown_outcome")],
)
async def test_a_connection_that_breaks_leaves_a_change_in_doubt(
    memory: MemoryStore, method: str, headers: Any, code: str
) -> None:
    async with serving_site({"/": b""}) as there, effect_asker(memory, [adapter()], {"http.out": LOOPBACK}) as asker:
        url = f"http://127.0.0.1:{there.port}/"
        assert await asker.code("http.request", method=method, url=url, headers=headers) == code


@pytest.mark.parametrize(
    ("method", "headers", "again"),
    [("GET", {}, 1), ("HEAD", {}, 1), ("POST", KEY, 1), ("POST", {}, 0), ("DELETE", {}, 0), ("get", {}, 1)],
)
async def test_after_a_crash_only_what_is_harmless_is_asked_again(
    memory: MemoryStore, method: str, headers: Any, again: int
) -> None:
    async with serving_site({"/": http_response(200)}) as there:
        grants = {"http.out": LOOPBACK}
        url = f"http://127.0.0.1:{there.port}/"
        await interrupt_effect(memory, grants, "http.request", method=method, url=url, headers=headers)
        async with effect_asker(memory, [adapter()], grants) as asker:
            await asker.host.settle()
            assert len(there.asked) == again
            result = asker.outcome()
            assert result["status"] == ("ok" if again else "error")
            assert again or result["payload"]["code"] == "unknown_outcome"


async def test_an_admitted_request_is_not_sent_if_the_grants_in_force_do_not_cover_it(memory: MemoryStore) -> None:
    async with serving_site({"/": http_response(200, b"hello")}) as web:
        url = f"http://127.0.0.1:{web.port}/"
        async with effect_asker(memory, [adapter()], {"http.out": LOOPBACK}, perform=False) as asker:
            await asker.submit_request("http.request", method="GET", url=url)
        async with effect_asker(memory, [adapter()], {"http.out": {"hosts": ["example.org"]}}) as asker:
            await asker.host.settle()
            assert asker.outcome()["payload"]["code"] == "host_not_allowed"
            assert asker.host.state(A).intents == {}
        assert web.asked == []
    assert verify(memory).ok
