"""Bytes come back as they were, in memory and from the private file, and take no room when nobody wants them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from io import FileIO

import pytest

from demiurge.filesystems.spool import Spool
from demiurge.filesystems.tree import Blob


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[FileIO]:
    """The private files that were made."""
    made: list[FileIO] = []
    real: Callable[..., FileIO] = tempfile.TemporaryFile

    def make(buffering: int) -> FileIO:
        made.append(real(buffering=buffering))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", make)
    return made


def test_a_spool_loads_each_blob_that_it_kept(opened: list[FileIO]) -> None:
    kept = Spool(10)
    blobs = [Blob(bytes([number]) * 7, mode=number) for number in range(5)]
    handles = [kept.keep(blob) for blob in blobs]
    assert [handle.load() for handle in handles] == blobs
    assert [handle.load() for handle in reversed(handles)] == blobs[::-1]
    assert len(opened) == 1


def test_without_a_limit_there_is_no_file(opened: list[FileIO]) -> None:
    handle = Spool(None).keep(Blob(b"x" * 1_000_000))
    assert handle.load().data == b"x" * 1_000_000
    assert opened == []


def test_a_spool_closes_the_file_of_blobs_that_nobody_references(opened: list[FileIO]) -> None:
    kept = Spool(10)
    for _ in range(100):
        handles = [kept.keep(Blob(b"x" * 8)) for _ in range(3)]
        assert [handle.load().data for handle in handles] == [b"x" * 8] * 3
        del handles
    assert all(file.closed for file in opened)
    last = kept.keep(Blob(b"x" * 10))
    assert len(opened) == 100
    assert last.load().data == b"x" * 10
