"""`demiurge blob`: bytes in, the same bytes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demiurge.values.refs import ref_of

ODD = bytes(range(256)) * 300


def test_blob_get_writes_the_bytes_that_blob_put_read(demiurge: Any, tmp_path: Path) -> None:
    (tmp_path / "odd.bin").write_bytes(ODD)
    ref = ref_of(ODD)
    assert demiurge("blob", "put", "@odd.bin").document == {"hash": ref}
    assert demiurge("blob", "put", "@-", stdin=ODD).document == {"hash": ref}
    assert demiurge("blob", "stat", ref).document == {"hash": ref, "size": len(ODD)}
    assert demiurge("blob", "get", ref, "--out", "copy.bin").document == {"hash": ref, "size": len(ODD)}
    assert (tmp_path / "copy.bin").read_bytes() == ODD


def test_text_is_put_as_it_is_typed(demiurge: Any) -> None:
    done = demiurge("blob", "put", "héllo")
    assert done.document == {"hash": ref_of("héllo".encode())}
    raw = demiurge("blob", "get", done.document["hash"], "--raw")
    assert (raw.out, raw.err) == ("héllo", "")


def test_bytes_are_not_thrown_at_a_terminal_unasked(demiurge: Any) -> None:
    ref = demiurge("blob", "put", "x").document["hash"]
    done = demiurge("blob", "get", ref)
    assert done.document == {"hash": ref, "size": 1}
    assert "--raw" in done.err


def test_a_blob_that_is_not_there(demiurge: Any) -> None:
    demiurge("init")
    done = demiurge("blob", "get", "sha256:" + "0" * 64, "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == "not_found"
    assert demiurge("blob", "get", "sha256:xyz").status == 1


def test_a_file_that_is_not_there(demiurge: Any) -> None:
    done = demiurge("blob", "put", "@nothing.txt")
    assert done.status == 1
    assert "There is no file nothing.txt" in done.err
