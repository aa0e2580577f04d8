"""Effects: what an adapter is given, and what it answers.

An adapter performs one kind of effect outside the kernel. It may be asked again after a crash, so it says what to do
with an attempt that has no receipt (docs/architecture.md, rule 3): `retry` with the same key, `reconcile` by asking the
outside what happened, or `in_doubt`, which is answered `unknown_outcome` and never silently repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from demiurge.errors import Unavailable
from demiurge.tools.events import AiEvent
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.budget import nothing_of
from demiurge.world.cell import Cell
from demiurge.world.injection import Injections
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record
from demiurge.world.state import OpenIntent
from demiurge.world.unit import Unit

__all__ = [
    "Adapter",
    "CellReading",
    "Claiming",
    "Deferring",
    "EffectCall",
    "Recalling",
    "Refusing",
    "Restart",
    "Result",
    "Services",
    "failed",
    "succeeded",
]

T = TypeVar("T")

Restart = Literal["retry", "reconcile", "in_doubt"]

Result = Mapping[str, Any]
"""`{status: "ok", payload}` with a payload of the effect's receipt schema, or `{status: "error", payload: {code,
message}}`."""


def succeeded(**payload: Any) -> Result:
    return {"status": "ok", "payload": payload}


def failed(code: str, message: str) -> Result:
    return {"status": "error", "payload": {"code": code, "message": message}}


class CellReading(NamedTuple):
    """Another unit's cell as of `unit_seq`; what a receipt says it has read (docs/architecture.md, rule 8)."""

    unit: Unit
    unit_seq: int
    cell: Cell | None
    state_hash: Ref | None
    head: bytes
    """Hash of its last record."""
    manifest: Ref | None
    """The one that its last ingress was taken under."""

    def to_node(self) -> dict[str, Any]:
        return {"unit": str(self.unit), "unit_seq": self.unit_seq, "state_hash": self.state_hash}


class Services(Protocol):
    """What a host does for adapters."""

    @property
    def manifest(self) -> Manifest: ...

    async def hold_blob(self, data: bytes) -> Ref:
        """Store a blob, at the latest with the records that name it."""
        ...

    async def put_blob(self, data: bytes) -> Ref:
        """Durable on return."""
        ...

    def get_blob(self, ref: Ref) -> bytes: ...

    async def read_cell(self, unit: Unit) -> CellReading: ...

    def keys(self, module: str) -> Iterator[str]:
        """Of the module's units, in order; one whose cell was deleted is among them."""
        ...

    def records(self, unit: Unit, from_seq: int = 0) -> Iterator[Record]: ...

    async def giver(
        self, unit: Unit, ref: Ref, accept: Callable[[Record], bool] = lambda _record: True
    ) -> Record | None:
        """A record that `accept` approves of and by which `unit` was given `ref` (`world.blob_access`)."""
        ...

    async def send(
        self, schema: str, value: Any, *, ingress_id: str, caller: Caller, cause: Mapping[str, Any]
    ) -> list[Record]:
        """Submit an event once and return the records of its step, also when it was submitted before."""
        ...

    async def request(self, call: EffectCall, kind: str, params: Mapping[str, Any]) -> Result:
        """A running tool's capability request, admitted by the kernel and answered by a receipt."""
        ...


@dataclass(slots=True)
class EffectCall:
    """One performance of one intent. `restart` says that an earlier attempt has no receipt."""

    unit: Unit
    intent: OpenIntent
    manifest: Manifest
    caller: Caller
    services: Services
    progress: Callable[[AiEvent], None]
    restart: Restart | None = None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    refs: list[Ref] = field(default_factory=list)
    """Blobs that the receipt exposes beside those in its payload."""
    injections: Injections = field(default_factory=Injections)
    """The secrets that the adapter was handed: what it stores and answers is masked."""
    requests: int = 0
    in_doubt: bool = False
    """Set when a re-run handler asked for something else than it did the first time."""
    stalled: Unavailable | None = None
    """Set when the store failed under it: then the call has no outcome, whatever its handler made of that."""

    @property
    def grant(self) -> Mapping[str, Any]:
        """The parameters of the grant that the intent was admitted under."""
        return self.manifest.grants[self.intent.grant].params

    async def put_blob(self, data: bytes) -> Ref:
        data = self.injections.masked_bytes(data)
        with self._stalling():
            ref = await self._at_home(self.services.hold_blob(data))
        self.refs.append(ref)
        return ref

    def get_blob(self, ref: Ref) -> bytes:
        return self.services.get_blob(ref)

    async def request(self, kind: str, params: Mapping[str, Any]) -> Result:
        with self._stalling():
            return await self._at_home(self.services.request(self, kind, params))

    async def send(self, schema: str, value: Any) -> list[Record]:
        """Submit the event that the effect comes to: once, however often the call is performed."""
        cause: dict[str, Any] = {"unit": str(self.unit), "seq": self.intent.seq, "index": 0}
        if self.intent.left is not None and "run" in self.intent.left:
            cause |= {"budget": nothing_of(self.intent.left["run"]), "run": self.intent.run}
        ingress_id = f"intent:{self.intent.id.hex()}"
        with self._stalling():
            return await self.services.send(schema, value, ingress_id=ingress_id, caller=self.caller, cause=cause)

    async def _at_home(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` on the host's loop: a `def` handler may run a loop of its own, in its thread."""
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    @contextmanager
    def _stalling(self) -> Iterator[None]:
        try:
            yield
        except Unavailable as error:
            self.stalled = error
            raise


class Adapter(Protocol):
    """Performs the effects of `kinds`. `perform` never raises for what the outside does: that is a Result."""

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """What to do with an attempt that has no receipt."""
        ...

    async def perform(self, call: EffectCall) -> Result: ...


@runtime_checkable
class Recalling(Protocol):
    """An adapter that may have an answer to an intent that waits for a person: what an equal call did, or that no
    decision could let it run."""

    async def recall(self, call: EffectCall) -> Result | None:
        """The answer, if there is one; nothing is done outside for it."""
        ...


@runtime_checkable
class Claiming(Protocol):
    """An adapter that makes a claim durable in a ledger before it does something outside, for some intents."""

    def claims(self, intent: OpenIntent) -> bool:
        """Whether it does for this one."""
        ...


@runtime_checkable
class Refusing(Protocol):
    """An adapter that answers what must not be performed (`EffectType.answers_refusals`)."""

    async def refuse(self, call: EffectCall, code: str, message: str) -> Result:
        """The answer to an intent that was refused with `code`; nothing is done outside for it."""
        ...


@runtime_checkable
class Deferring(Protocol):
    """An adapter whose intents are not to be begun before a time."""

    def due_ns(self, intent: OpenIntent) -> int:
        """Wall time, from 1970."""
        ...
