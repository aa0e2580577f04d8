"""Filesystems for tools: a tree in memory, and a folder on disk. Both can undo the changes of a call.

Both are a `demiurge.tools.filesystem.Filesystem`. Imports only the packages below: `tools`, `values`, `errors`.
"""

from __future__ import annotations

from demiurge.filesystems.folder import FolderFilesystem
from demiurge.filesystems.limits import Limits
from demiurge.filesystems.memory import InMemoryFilesystem
from demiurge.filesystems.undo import FilesSnapshot

__all__ = ["FilesSnapshot", "FolderFilesystem", "InMemoryFilesystem", "Limits"]
