"""The files of the web pages: their types, how long a browser keeps them, and the paths that get the one page."""

from __future__ import annotations

import pytest
from tests.server.conftest import Served

from demiurge.server.routes.pages import PAGES

KEPT = "public, max-age=31536000, immutable"


async def test_a_built_file_is_sent_with_its_type_and_kept_for_a_year(served: Served) -> None:
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    found = {path.suffix: path for path in (PAGES / "assets").iterdir()}
    assert {".js", ".css"} <= set(found)
    async with served.browser() as browser:
        for suffix, path in found.items():
            for method in ("GET", "HEAD"):
                answer = await browser.request(method, f"/assets/{path.name}")
                assert answer.status_code == 200
                assert answer.headers["cache-control"] == KEPT
                assert answer.headers["content-type"] == types.get(suffix, "application/octet-stream")
                assert answer.content == (path.read_bytes() if method == "GET" else b"")


async def test_a_file_that_is_not_there_is_told_to_whoever_has_an_old_page(served: Served) -> None:
    async with served.browser() as browser:
        answer = await browser.get("/assets/index-0.js")
    told = {"code": "no_path", "message": "There is no such file; load the page again."}
    assert (answer.status_code, answer.json()) == (404, told)


@pytest.mark.parametrize("path", ["/", "/chats/c1", "/apis", "/logins/x", "/assetsx"])
async def test_a_path_of_the_pages_gets_the_page_which_is_looked_up_each_time(served: Served, path: str) -> None:
    async with served.browser() as browser:
        answer = await browser.get(path)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.content == (PAGES / "index.html").read_bytes()


@pytest.mark.parametrize("path", ["/api", "/api/x", "/login/x", "/assets", "/assets/x/y"])
async def test_a_path_below_one_of_the_server_never_gets_the_page(served: Served, path: str) -> None:
    async with served.browser() as browser:
        answer = await browser.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "no_path")
