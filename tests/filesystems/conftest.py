"""A tree in memory and a folder of the disk, which have to do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from demiurge.filesystems import FolderFilesystem, InMemoryFilesystem
from demiurge.filesystems.files import TreeFilesystem

MakeFiles: TypeAlias = Callable[..., TreeFilesystem]


@pytest.fixture(params=["memory", "folder"])
def make_files(request: pytest.FixtureRequest, tmp_path: Path) -> MakeFiles:
    """Makes an empty filesystem with these keywords."""

    def make(**options: Any) -> TreeFilesystem:
        if request.param == "memory":
            return InMemoryFilesystem(**options)
        root = tmp_path / f"files{len(list(tmp_path.iterdir()))}"
        root.mkdir()
        return FolderFilesystem(root, **options)

    return make


@pytest.fixture
def files(make_files: MakeFiles) -> TreeFilesystem:
    return make_files()


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are about what is there, not about what a crash leaves."""
    monkeypatch.setattr("demiurge.filesystems.folder._sync", lambda descriptor: None)
