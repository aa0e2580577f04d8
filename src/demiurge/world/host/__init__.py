"""The embedded host: it runs units and effects in this process, on one store.

`host` takes events in and answers questions; `units` holds the loaded units, each a `live` one that `loader` has read;
`dispatch` performs the intents of the kernel, `timers` wakes intents at their time, `commit` writes for all of them.
"""

from demiurge.world.host.host import Accepted, Host

__all__ = ["Accepted", "Host"]
