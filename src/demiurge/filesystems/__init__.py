"""Files for tools: a tree in memory, and a folder of the disk, both of which can take a call's changes back.

Both are a `demiurge.tools.filesystem.Filesystem`. Imports only what is below it: `tools`, `values`, `errors`.
"""

from __future__ import annotations

from demiurge.filesystems.folder import FolderFilesystem
from demiurge.filesystems.limits import Limits
from demiurge.filesystems.memory import InMemoryFilesystem
from demiurge.filesystems.undo import FilesSnapshot

__all__ = ["FilesSnapshot", "FolderFilesystem", "InMemoryFilesystem", "Limits"]
