"""The way of a `World` to the process that owns its store: this one (`embedded`), or another (`remote`) by `socket`.

`calls` declares every call once, and `operations` derives from it what may be called by whom and what travels.
`ownership` settles which process is the owner; `owner` is what that process holds, and `running`, `reading` and
`keeping` answer the calls there.
"""

from demiurge.bootstrap.backend.calls import Backend, Frames, OnFrame, Shown

__all__ = ["Backend", "Frames", "OnFrame", "Shown"]
