"""The built pages: those of the committed sources, served so that a browser keeps them, and small."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.server.conftest import Served
from tests.shell.source_digest import DIGEST, PAGES, ROOT, build_digest

FIRST_LOAD = 250_000


def test_committed_pages_are_built_from_the_committed_sources() -> None:
    assert json.loads(DIGEST.read_text("utf-8")) == build_digest(), "run `make shell` and commit what it builds"


def test_check_25_first_load_is_at_most_250_kb_gzipped() -> None:
    index = (PAGES / "index.html").read_text("utf-8")
    names = re.findall(r'(?:src|href)="/(assets/[^"]+)"', index)
    loaded = {*names, *(f"assets/{path.name}" for path in (PAGES / "assets").glob("markdown-*.js"))}
    sizes = [len(gzip.compress((PAGES / name).read_bytes())) for name in loaded]
    assert len(sizes) >= 4
    assert sum(sizes) <= FIRST_LOAD


async def test_a_path_of_the_shell_is_answered_with_its_page(served: Served) -> None:
    async with served.browser() as client:
        for path in ("/", "/chats/some%2Fchat", "/approvals"):
            page = await client.get(path)
            assert page.status_code == 200
            assert page.headers["content-type"].startswith("text/html")
            assert page.headers["cache-control"] == "no-cache"
            assert "script-src 'self'" in page.headers["content-security-policy"]
        script = re.findall(r'src="(/assets/[^"]+)"', page.text)[0]
        loaded = await client.get(script)
        assert loaded.headers["content-type"].startswith("text/javascript")
        assert "immutable" in loaded.headers["cache-control"]


async def test_the_page_never_answers_for_the_api(served: Served) -> None:
    async with served.browser() as client:
        for path in ("/api", "/api/nothing", "/login/x", "/assets/none.js", "/assets/..%2Findex.html"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "no_path"), path
        assert (await client.post("/chats")).status_code == 405


def test_the_pages_travel_in_the_wheel(tmp_path: Path) -> None:
    building = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(building, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if "/server/pages/" in name}
    built = {path.relative_to(PAGES).as_posix() for path in PAGES.rglob("*") if path.is_file()}
    assert packed == {f"demiurge/server/pages/{name}" for name in built}
