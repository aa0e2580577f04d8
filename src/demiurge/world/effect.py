"""Effects: the interface between the host and the adapters that touch the outside.

An adapter performs one kind of effect outside the kernel. It may be asked again after a crash, so it declares how to
handle an attempt that has no receipt (docs/architecture.md, rule 3): `retry` with the same key, `reconcile` by asking
the outside what happened, or `in_doubt`, which is answered `unknown_outcome` and never silently repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from demiurge.capabilities.injection import Injections
from demiurge.errors import Unavailable
from demiurge.tools.events import AiEvent
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.budget import nothing_of
from demiurge.world.cell import Cell
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = [
    "Adapter",
    "Answering",
    "CellReading",
    "Claiming",
    "Deferring",
    "EffectCall",
    "Preflight",
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
    """Returns the result of an effect that succeeded; `payload` has the form of its receipt schema."""
    return {"status": "ok", "payload": payload}


def failed(code: str, message: str) -> Result:
    """Returns the result of an effect that failed."""
    return {"status": "error", "payload": {"code": code, "message": message}}


class CellReading(NamedTuple):
    """The state of another unit when it had `unit_seq` records; the receipt names it as what the effect has read
    (docs/architecture.md, rule 8)."""

    unit: Unit
    unit_seq: int
    cell: Cell | None
    state_hash: Ref | None
    head: bytes
    """Hash of the unit's last record."""
    manifest: Ref | None
    """The manifest under which the unit took its last ingress."""

    def to_node(self) -> dict[str, Any]:
        return {"unit": str(self.unit), "unit_seq": self.unit_seq, "state_hash": self.state_hash}


class Services(Protocol):
    """The services of a host that adapters use."""

    @property
    def manifest(self) -> Manifest: ...

    async def hold_blob(self, data: bytes) -> Ref:
        """Stores a blob, at the latest with the records that name it. Returns its address."""
        ...

    async def put_blob(self, data: bytes) -> Ref:
        """Stores a blob; durable on return. Returns its address."""
        ...

    def get_blob(self, ref: Ref) -> bytes: ...

    def state(self, unit: Unit) -> UnitState:
        """Returns a unit's state as of its last durable record."""
        ...

    async def read_cell(self, unit: Unit) -> CellReading: ...

    def keys(self, module: str, *, latest_first: bool = False) -> Iterator[str]:
        """Yields the keys of the module's units, those of deleted cells included: in order, or with `latest_first`
        those with the latest records first."""
        ...

    def records(self, unit: Unit, from_seq: int = 0) -> Iterator[Record]: ...

    def latest(self, kind: str, most: int) -> Iterator[Record]:
        """Yields the records of this kind among the last `most` records of the world, newest first; archived ones that
        are not here are left out."""
        ...

    async def granting_record(
        self, unit: Unit, ref: Ref, accept: Callable[[Record], bool] = lambda _record: True
    ) -> Record | None:
        """Returns a record that gave `unit` access to `ref` (`world.blob_access`) and that `accept` approves of, else
        None."""
        ...

    async def send(
        self, schema: str, value: Any, *, ingress_id: str, caller: Caller, cause: Mapping[str, Any]
    ) -> list[Record]:
        """Submits an event once. Returns the records of its step, also if the event was submitted before."""
        ...

    async def request(self, call: EffectCall, kind: str, params: Mapping[str, Any]) -> Result:
        """Asks for an effect on behalf of a running tool. The kernel decides on the request; a receipt answers it."""
        ...

    async def settle(self, unit: Unit) -> None:
        """Waits until nothing goes on by itself in a unit. Raises the error that keeps it from going on."""
        ...


@dataclass(slots=True)
class EffectCall:
    """One performance of one intent. `restart` is set if an earlier attempt has no receipt."""

    unit: Unit
    intent: OpenIntent
    manifest: Manifest
    caller: Caller
    services: Services
    progress: Callable[[AiEvent], None]
    restart: Restart | None = None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    refs: list[Ref] = field(default_factory=list)
    """Blobs that the receipt exposes, besides those in its payload."""
    injections: Injections = field(default_factory=Injections)
    """The secrets that the adapter was handed. They are masked in whatever it stores or answers."""
    connection: Mapping[str, Any] | None = None
    """The receipt's entry for the connection that the call uses (`effects.chosen_connection`)."""
    requests: int = 0
    """How many capability requests the running tool has made."""
    untrusted: set[str] = field(default_factory=set)
    """The untrusted tools whose text the effect has read or brings: the receipt names them, and they taint its run."""
    in_doubt: bool = False
    """True if a handler that ran again asked for something else than the first time."""
    stalled: Unavailable | None = None
    """The failure of the store during the call, if any. The call then has no outcome, whatever its handler returns."""

    @property
    def grant(self) -> Mapping[str, Any]:
        """The parameters of the grant that the intent was admitted under."""
        return self.manifest.grants[self.intent.grant].params

    async def put_blob(self, data: bytes) -> Ref:
        data = self.injections.masked_bytes(data)
        with self._noting_stall():
            ref = await self.on_host_loop(self.services.hold_blob(data))
        self.refs.append(ref)
        return ref

    def get_blob(self, ref: Ref) -> bytes:
        return self.services.get_blob(ref)

    async def read_cell(self, unit: Unit) -> CellReading:
        """Reads the state of a unit, which is stored as a blob for that."""
        with self._noting_stall():
            return await self.services.read_cell(unit)

    async def request(self, kind: str, params: Mapping[str, Any]) -> Result:
        if self.injections.are_in(params):
            message = "What a tool asks for is recorded, so it can't hold the credentials of a connection."
            return failed("credentials_in_request", message)
        with self._noting_stall():
            return await self.on_host_loop(self.services.request(self, kind, params))

    async def send(self, schema: str, value: Any, *, also: str = "") -> list[Record]:
        """Submits the event that the effect produces: once, however often the effect is performed. `also` tells several
        events of one effect apart."""
        cause: dict[str, Any] = {"unit": str(self.unit), "seq": self.intent.seq, "index": 0}
        if self.intent.left is not None and "run" in self.intent.left:
            cause |= {"budget": nothing_of(self.intent.left["run"]), "run": self.intent.run}
        if self.intent.tainted:
            cause["tainted"] = list(self.intent.tainted)
        ingress_id = f"intent:{self.intent.id.hex()}{also and f'/{also}'}"
        with self._noting_stall():
            return await self.services.send(schema, value, ingress_id=ingress_id, caller=self.caller, cause=cause)

    async def on_host_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits `work` on the host's loop: a `def` handler may run a loop of its own, in its thread."""
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    @contextmanager
    def _noting_stall(self) -> Iterator[None]:
        """Sets `stalled` if the store fails inside the block."""
        try:
            yield
        except Unavailable as error:
            self.stalled = error
            raise


class Adapter(Protocol):
    """Performs the effects of `kinds`. `perform` reports failures of the outside in its Result and does not raise for
    them."""

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """Returns how to handle an attempt that has no receipt."""
        ...

    async def perform(self, call: EffectCall) -> Result: ...


@runtime_checkable
class Preflight(Protocol):
    """An adapter that can answer some intents before a person decides on them: with the result of an equal call, or
    with a refusal that no decision could lift."""

    async def preflight(self, call: EffectCall) -> Result | None:
        """Returns the answer if there is one, else None. Touches nothing outside."""
        ...


@runtime_checkable
class Claiming(Protocol):
    """An adapter that, for some intents, makes a claim durable in a ledger before it touches the outside."""

    def claims(self, intent: OpenIntent) -> bool:
        """Returns whether the adapter makes a claim for this intent."""
        ...


@runtime_checkable
class Refusing(Protocol):
    """An adapter that words the answers to refused intents (`EffectType.answers_refusals`)."""

    async def refuse(self, call: EffectCall, code: str, message: str) -> Result:
        """Returns the answer to an intent that was refused with `code`. Touches nothing outside."""
        ...


@runtime_checkable
class Answering(Protocol):
    """An adapter that words a person's answer to a question as the result of the call that asked it."""

    async def answer(self, call: EffectCall) -> Result:
        """Returns the result of a question that a person answered (`OpenIntent.answer_ref`). Touches nothing
        outside."""
        ...


@runtime_checkable
class Deferring(Protocol):
    """An adapter whose intents must not begin before a time."""

    def due_ns(self, intent: OpenIntent) -> int:
        """Returns the earliest time at which the intent may begin, in nanoseconds since 1970."""
        ...
