"""Blobs over HTTP: ranges, validators, types, and that no browser runs them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.server.conftest import Served

from demiurge.server.routes.blobs import TYPED

TEXT = b"0123456789"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0" * 20


async def stored(served: Served, data: bytes) -> tuple[httpx.AsyncClient, str]:
    """A client of the user, and the path of a blob with these bytes."""
    user = await served.client()
    return user, f"/api/blob/{(await user.post('/api/blob', content=data)).json()['hash']}"


@pytest.mark.parametrize(
    ("asked", "data", "place"),
    [
        ("bytes=0-3", b"0123", "bytes 0-3/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=8-100", b"89", "bytes 8-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-100", TEXT, "bytes 0-9/10"),
        ("Bytes=0-0", b"0", "bytes 0-0/10"),
    ],
)
async def test_a_range_of_a_blob_is_returned(served: Served, asked: str, data: bytes, place: str) -> None:
    user, path = await stored(served, TEXT)
    answer = await user.get(path, headers={"range": asked})
    assert (answer.status_code, answer.content, answer.headers["content-range"]) == (206, data, place)
    assert answer.headers["content-length"] == str(len(data))


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=999999999999-"])
async def test_a_range_outside_the_blob_cannot_be_satisfied(served: Served, asked: str) -> None:
    user, path = await stored(served, TEXT)
    answer = await user.get(path, headers={"range": asked})
    assert (answer.status_code, answer.json()["code"]) == (416, "bad_range")
    assert answer.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize(
    "asked",
    ["bytes=4-2", "bytes=a-b", "bytes=-", "lines=0-1", "bytes=0-1,3-4", "bytes=0-1" * 100, f"bytes={'9' * 99}-"],
)
async def test_a_range_that_is_none_is_ignored(served: Served, asked: str) -> None:
    user, path = await stored(served, TEXT)
    answer = await user.get(path, headers={"range": asked})
    assert (answer.status_code, answer.content, "content-range" in answer.headers) == (200, TEXT, False)


async def test_no_range_of_an_empty_blob_can_be_satisfied(served: Served) -> None:
    user, path = await stored(served, b"")
    assert (await user.get(path)).content == b""
    answer = await user.get(path, headers={"range": "bytes=0-"})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */0")


async def test_a_range_holds_only_if_the_blob_is_the_same(served: Served) -> None:
    user, path = await stored(served, TEXT)
    tag = (await user.get(path)).headers["etag"]
    for given, status in ((tag, 206), ('"other"', 200), (f"W/{tag}", 200), ("Mon, 23 Nov 2026 00:00:00 GMT", 200)):
        answer = await user.get(path, headers={"range": "bytes=0-3", "if-range": given})
        assert answer.status_code == status, given


async def test_a_blob_that_a_reader_has_is_not_sent_again(served: Served) -> None:
    user, path = await stored(served, TEXT)
    tag = (await user.get(path)).headers["etag"]
    for given, status in ((tag, 304), (f'"x", W/{tag}', 304), ("*", 304), ('"other"', 200)):
        answer = await user.get(path, headers={"if-none-match": given, "range": "bytes=0-3"})
        assert answer.status_code == (206 if status == 200 else status), given
        assert answer.headers["etag"] == tag
    viewer = await served.client("viewer")
    assert (await viewer.get(path, headers={"if-none-match": "*"})).status_code == 404
    await served.world.erase(path.rpartition("/")[2], "a slip")
    assert (await user.get(path, headers={"if-none-match": tag})).status_code == 404


async def test_a_head_request_has_the_headers_alone(served: Served) -> None:
    user, path = await stored(served, TEXT)
    whole, head = await user.get(path), await user.head(path)
    assert (head.status_code, head.content) == (200, b"")
    names = ("content-length", "content-type", "etag", "accept-ranges", "content-disposition")
    assert {name: head.headers[name] for name in names} == {name: whole.headers[name] for name in names}
    missing = await user.head(path[:-1] + ("0" if path[-1] != "0" else "1"))
    assert missing.status_code == 404


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"RIFF\x24\0\0\0WAVEfmt " + b"\0" * 24, "audio/wav"),
        (b"plain words", "text/plain; charset=utf-8"),
        (b"<!doctype html><script>alert(1)</script>", "text/plain; charset=utf-8"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', "text/plain; charset=utf-8"),
        (b"%PDF-1.7", "text/plain; charset=utf-8"),
        (b"\x00\xff\xfe", "application/octet-stream"),
        (b"cut\xc3", "application/octet-stream"),
        (b"x" * (TYPED - 1) + b"\xc3", "application/octet-stream"),
        (("x" * (TYPED - 1) + "\u00fc").encode(), "text/plain; charset=utf-8"),
        ("é".encode() * 3000, "text/plain; charset=utf-8"),
        (b"x" + "é".encode() * 3000, "text/plain; charset=utf-8"),
    ],
)
async def test_no_browser_runs_a_blob(served: Served, data: bytes, kind: str) -> None:
    user, path = await stored(served, data)
    answer = await user.get(path)
    headers: Any = answer.headers
    assert (answer.content, headers["content-type"], headers["x-content-type-options"]) == (data, kind, "nosniff")
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert headers["cache-control"] == "private, no-cache"
    is_shown = kind.startswith(("image/", "audio/"))
    assert ("content-disposition" in headers) != is_shown
    assert is_shown or headers["content-disposition"].startswith("attachment; ")


async def test_a_download_has_the_name_that_the_reader_asked_for(served: Served) -> None:
    user, path = await stored(served, b"a,b\n")
    answer = await user.get(path, params={"name": '../grüße".csv\r\nx: y'})
    disposition = answer.headers["content-disposition"]
    assert disposition.endswith("; filename*=UTF-8''gr%C3%BC%C3%9Fe%22.csv%20x%20y")
    assert (await user.get(path, params={"name": "x" * 201})).status_code == 422
