"""Capabilities without a world: HTTP, workspaces and a timer for the tools of a `ToolRunner` in a program of its own.

    ToolRunner(tools, resources={HttpAccess: LocalHttp(["api.example.com"]), Workspaces: FolderWorkspaces("notes")})

The protocols are in `demiurge.tools.capabilities`, so a handler that asks for one runs unchanged in a world, where the
same capability is an effect that is admitted and recorded. The guard of requests (`http`), logins (`oauth`) and the
masks of secrets (`injection`) are the same code in both. Imports `models`, `filesystems`, `tools`, `values` and
`errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demiurge.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from demiurge.capabilities.http.local import LocalHttp, SecretValues
    from demiurge.capabilities.timer import LocalTimer
    from demiurge.capabilities.workspaces import FolderWorkspaces, MemoryWorkspaces

__all__ = ["FolderWorkspaces", "LocalHttp", "LocalTimer", "MemoryWorkspaces", "SecretValues"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "demiurge.capabilities.http.local": ("LocalHttp", "SecretValues"),
        "demiurge.capabilities.timer": ("LocalTimer",),
        "demiurge.capabilities.workspaces": ("FolderWorkspaces", "MemoryWorkspaces"),
    },
)
