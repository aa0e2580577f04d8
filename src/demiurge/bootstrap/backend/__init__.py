"""Whoever owns a world's store, as a `World` calls it: this process (`embedded`), or another one
(`remote`) over its `socket`.

`ownership` settles which of the two it is; `letting_go` is what only the owner can do; `told` carries errors across.
"""

from demiurge.bootstrap.backend.backend import Backend, Frames, OnFrame, Shown

__all__ = ["Backend", "Frames", "OnFrame", "Shown"]
