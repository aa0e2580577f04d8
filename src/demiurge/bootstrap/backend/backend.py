"""What a `World` needs from whoever owns the world's store: this process, or another one over its socket.

Every argument and result is plain data that canonical CBOR can carry, so the same calls travel over a socket.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from demiurge.bootstrap.manifest import Ruled
from demiurge.values.projection import Only

__all__ = ["Backend", "Frames", "OnFrame", "Shown"]

Shown = Mapping[str, Any]
"""A frame as data: `{unit, intent, attempt, offset, end, type, ...}` and the fields of the event (`watching.frame`)."""

Frames = AsyncGenerator[Shown, None]

OnFrame = Callable[[Shown], None]


class Backend(Protocol):
    """The calls. Sync ones only read or write blobs and records; all others may run units and effects."""

    @property
    def owner(self) -> bool:
        """Whether this process owns the world."""
        ...

    async def serve(self) -> None:
        """Let other processes in, where this one is the owner."""
        ...

    async def submit(
        self, schema: str, value: Any, key: str | None, idempotency_key: str | None
    ) -> tuple[str, int, str]: ...

    async def settle(self, unit: str | None, on_frame: OnFrame | None = None) -> None: ...

    def watch(self, unit: str | None, after: Iterable[Shown] = (), settles: bool = False) -> Frames:
        """What is shown of the effects that run in a unit (None: in all), for ever; with `settles` until they have
        settled. Nothing twice of what `after`, frames that were seen before, shows already."""
        ...

    def appends(self) -> Frames:
        """Yields `{"length": n}`, the number of records, at once and whenever records were appended, until the world is
        closed."""
        ...

    async def state(self, module: str, key: str, at: int | None = None, only: Only = "all") -> Mapping[str, Any] | None:
        """The part `only` of the cell as JSON-ready data; None when there is no cell."""
        ...

    async def keys(self, module: str) -> list[str]: ...

    async def approvals(self, of: str | None = None) -> list[dict[str, Any]]:
        """Requests that wait, of one unit or all: `{id, unit, tool, tool_call_id, arguments_json, damaged, expires_ns,
        ...}`; `damaged` is None, or says what of a call can't be read (`waiting_calls`)."""
        ...

    async def decide(self, approval_id: str, approve: bool, reason: str) -> None: ...

    async def doubts(self, settled: bool = False) -> list[dict[str, Any]]:
        """See `bootstrap.doubts.Doubts.found`."""
        ...

    async def settle_doubt(self, doubt_id: str, done: bool, reason: str, result_json: str | None) -> dict[str, Any]: ...

    async def cancel(self, unit: str, reason: str) -> None: ...

    async def fork(self, folder: str, at: int | None) -> dict[str, Any]:
        """The fields of `fork.Fork`; `folder` is absolute."""
        ...

    async def replay(self) -> dict[str, Any]: ...

    async def gc(self, keep_days: float, dry_run: bool) -> dict[str, Any]:
        """The fields of `world.retention.garbage.Garbage`."""
        ...

    async def erase(self, ref: str, why: str, dry_run: bool) -> dict[str, Any]:
        """The fields of `world.retention.erasure.Erasure`."""
        ...

    async def archive(self, before: int | None, keep_days: float, dry_run: bool) -> dict[str, Any]:
        """The fields of `world.retention.archive.Archiving`."""
        ...

    async def info(self) -> dict[str, Any]:
        """`{world_id, manifest, settings, catalog: [spec], tools: [name], notices: [text], missing: [module], origin,
        own_manifest, adopted}`."""
        ...

    def manifest(self) -> bytes:
        """The node of the manifest in force, or that would be."""
        ...

    async def replace_manifest(self, ruled: Ruled) -> None:
        """Put another manifest in force; each unit takes it at its next ingress. Raises Conflict (`owned`) where
        another process owns the world and runs it with another manifest."""
        ...

    def replay_risks(self) -> list[dict[str, Any]]:
        """What in the code of its reducers may differ at a replay: `{module, line, name, why}`."""
        ...

    def put_blob(self, data: bytes, force: bool = False) -> str: ...

    def get_blob(self, ref: str) -> bytes: ...

    def rows(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        """Up to `limit` records: (position, record bytes). `start` is a unit's sequence number, or a position."""
        ...

    def heads(self, prefix: str = "", limit: int | None = None) -> list[tuple[str, int, bytes, int]]:
        """(unit, number of records, hash of the last, its position) of the first `limit` whose names begin so, by unit
        name."""
        ...

    def archives(self) -> list[dict[str, Any]]:
        """`{first, last, records, bytes, packed, seal, file, here}` of each."""
        ...

    def verify(self, seal: str | None = None, archives: Sequence[str] = ()) -> dict[str, Any]:
        """`archives`: absolute paths of files to read too."""
        ...

    def lost(self) -> list[str]:
        """Returns the losses of the journal, the ledger and the user's notes of this world: sentences that name the
        file and say what to do."""
        ...

    def seal(self, size: int | None = None) -> str: ...

    def prove(self, position: int, seal: str | None = None) -> dict[str, Any]:
        """A `world.history.seal.Proof` as JSON."""
        ...

    async def close(self) -> None:
        """Stop; calls that are under way end with an error."""
        ...
