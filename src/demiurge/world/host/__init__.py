"""The embedded host: it runs units and effects in this process, on one store.

`host` takes events in and answers questions; `units` holds those in memory, each a `live` one that `loader` has read;
`dispatch` carries out what the kernel wants, `timers` wakes what waits for its time, `commit` writes for all of them.
"""

from demiurge.world.host.host import Accepted, Host

__all__ = ["Accepted", "Host"]
