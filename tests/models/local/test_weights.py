from __future__ import annotations

from pathlib import Path

import pytest

from demiurge.errors import Damaged
from demiurge.models.local.weights import LOCAL_MODEL, Weights, cache_folder, locate, remove, verify

TINY = Weights(
    "tiny", "tiny.gguf", "MIT", 4, "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589", "", ()
)


def put(cache: Path, data: bytes = b"abcd") -> Path:
    path = cache / "models" / "tiny.gguf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_the_parts_make_up_the_file() -> None:
    assert sum(part.size for part in LOCAL_MODEL.parts) == LOCAL_MODEL.size == 1_117_320_768
    assert len(LOCAL_MODEL.parts) == 22
    assert len({part.sha256 for part in LOCAL_MODEL.parts}) == 22


@pytest.mark.parametrize(
    ("environ", "platform", "folder"),
    [
        ({"DEMIURGE_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/h"}, "linux", "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/h"}, "linux", "/b/demiurge"),
        ({"HOME": "/h"}, "linux", "/h/.cache/demiurge"),
        ({"HOME": "/h"}, "darwin", "/h/Library/Caches/demiurge"),
    ],
)
def test_the_cache_folder_follows_the_system(environ: dict[str, str], platform: str, folder: str) -> None:
    assert cache_folder(environ, platform=platform) == Path(folder)


def test_weights_are_located_only_when_complete(tmp_path: Path) -> None:
    assert locate(TINY, cache=tmp_path, environ={}) is None
    put(tmp_path, b"abc")
    assert locate(TINY, cache=tmp_path, environ={}) is None
    path = put(tmp_path)
    assert locate(TINY, cache=tmp_path, environ={}) == path
    assert locate(TINY, environ={"DEMIURGE_CACHE": str(tmp_path)}) == path


def test_a_file_of_ones_own_comes_first(tmp_path: Path) -> None:
    put(tmp_path)
    own = tmp_path / "own.gguf"
    environ = {"DEMIURGE_LOCAL_MODEL": str(own)}
    assert locate(TINY, cache=tmp_path, environ=environ) is None
    own.write_bytes(b"own")
    assert locate(TINY, cache=tmp_path, environ=environ) == own


def test_verify_reads_the_bytes(tmp_path: Path) -> None:
    verify(put(tmp_path), TINY)
    with pytest.raises(Damaged, match="another"):
        verify(put(tmp_path, b"abce"), TINY)


def test_remove_frees_the_weights_and_what_is_partial(tmp_path: Path) -> None:
    assert remove(TINY, cache=tmp_path) == 0
    put(tmp_path)
    partial = tmp_path / "models" / "tiny.gguf.partial" / "registry"
    partial.mkdir(parents=True)
    (partial / "joined").write_bytes(b"ab")
    assert remove(TINY, cache=tmp_path) == 6
    assert list((tmp_path / "models").iterdir()) == []
