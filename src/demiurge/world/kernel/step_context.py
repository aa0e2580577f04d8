"""`StepContext`: one call of `advance` in progress, with the changed state, the output so far, and the tasks still to
do."""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from demiurge.errors import InvalidValue
from demiurge.values.caller import Caller
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Sent
from demiurge.world.manifest import Manifest
from demiurge.world.plan import PlanInstance
from demiurge.world.record import Cause, Record, Stamp, seal_record
from demiurge.world.state import OpenIntent, UnitState
from demiurge.world.unit import Unit

__all__ = ["MESSAGE", "Reduce", "RunPlan", "StepContext"]

_Stamp = fast_constructor(Stamp)

EVENTS_PER_INGRESS = 4096
EFFECTS_PER_INGRESS = 1024
BLOB_BYTES_PER_INGRESS = 16 << 20
"""The most that one ingress may cause. Effects count when they are asked for, blobs when steps make them."""

MESSAGE = 1000
"""The longest error text of a step, in characters."""


class Reduce(NamedTuple):
    """A task: give an event of its module to the unit's reducer. `run` is the id of the counted run that the event
    belongs to, if any."""

    value: Any
    cause: int
    run: int | None


class RunPlan(NamedTuple):
    """A task: move a plan on; with `offers` (see `plan.offer_event`) only if one of its steps takes an offer."""

    plan_id: int
    cause: int
    offers: Sequence[tuple[str, Any]] | None = None


class StepContext:
    """The working state of one call of `advance`. `owned` holds the ids of plan instances that were copied for this
    step; `ready` the intents to perform; `asks` the intents that wait for a person."""

    def __init__(self, manifest: Manifest, state: UnitState, ingress: Ingress, blobs: Mapping[Ref, bytes]) -> None:
        self.manifest, self.state, self.ingress = manifest, state, ingress
        self.blobs: ChainMap[Ref, bytes] = ChainMap({}, blobs)  # type: ignore[arg-type]  # only the first map is written
        self.records: list[Record] = []
        self.ready: list[OpenIntent] = []
        self.asks: list[OpenIntent] = []
        self.sent: list[Sent] = []
        self.new_blobs: list[bytes] = []
        self.answers: list[tuple[bytes, Mapping[str, Any]]] = []
        self.tasks: deque[Reduce | RunPlan] = deque()
        self.events = self.effects = self.blob_bytes = 0
        self.owned: set[int] = set()
        self._unit = str(state.unit)
        self._derived = _Stamp(ingress.stamp.time_ns)

    def record(self, kind: str, body: Mapping[str, Any], cause: Cause, refs: Sequence[Ref] = ()) -> int:
        """Appends a derived record. Returns its sequence number."""
        return self._append(kind, body, cause, self._derived, refs)

    def record_ingress(self) -> int:
        """Appends the ingress itself. Returns its sequence number."""
        i = self.ingress
        if i.record is not None:
            seq = self._appended(i.record)
        else:
            seq = self._append(i.kind, i.body, i.cause, i.stamp, i.refs)
        if self.state.manifest != self.manifest.ref:
            self.state.manifest = self.manifest.ref
            refs = [self.manifest.ref, *self.manifest.sources.values()]
            self.record("manifest", {"ref": self.manifest.ref}, seq, refs)
        return seq

    def _append(self, kind: str, body: Mapping[str, Any], cause: Cause, stamp: Stamp, refs: Sequence[Ref]) -> int:
        s = self.state
        return self._appended(seal_record(self._unit, s.seq, kind, cause, stamp, body, s.head, refs))

    def _appended(self, record: Record) -> int:
        self.records.append(record)
        self.state.seq, self.state.head = record.unit_seq + 1, record.hash
        return record.unit_seq

    def send(self, seq: int, target: Unit, schema: str, value: Any, cause: Mapping[str, Any]) -> None:
        """Sends the event of record `seq` to another unit, in the name of this unit, with the tenant and the roles of
        this ingress's caller. So a caller gains no right by going through another unit."""
        asks = self.ingress.stamp.caller
        caller = Caller(self._unit, asks.tenant, asks.roles)
        self.sent.append(Sent(f"{self._unit}#{seq}.{cause['index']}", target, schema, value, cause, caller))

    def check_events(self, more: int) -> None:
        if self.events + more > EVENTS_PER_INGRESS:
            raise InvalidValue("this ingress has caused too many events")

    def check_effects(self, more: int) -> None:
        if self.effects + more > EFFECTS_PER_INGRESS:
            raise InvalidValue(f"this ingress has asked for more than {EFFECTS_PER_INGRESS} effects")

    def check_blobs(self, more: Sequence[bytes]) -> None:
        if self.blob_bytes + sum(map(len, more)) > BLOB_BYTES_PER_INGRESS:
            raise InvalidValue("this ingress has made more than 16 MiB of blobs")

    def keep(self, blob: bytes) -> Ref:
        """Stores a blob that a step made, so that the next steps may read it. Returns its address."""
        ref = ref_of(blob)
        self.blobs[ref] = blob
        self.new_blobs.append(blob)
        self.blob_bytes += len(blob)
        return ref

    def origin_of(self, seq: int) -> Literal["external", "unit", "derived"]:
        """Returns where the event of record `seq` came from."""
        if self.records[0].unit_seq != seq or self.ingress.kind != "event":
            return "derived"
        return "external" if self.ingress.cause is None else "unit"

    def sender_of(self, seq: int) -> str | None:
        """Returns the name of the unit that sent the event of record `seq`; None if no unit did."""
        cause = self.ingress.cause
        return str(cause["unit"]) if self.origin_of(seq) == "unit" and isinstance(cause, Mapping) else None

    def own(self, instance: PlanInstance) -> PlanInstance:
        """Returns the instance as one that this step may change: a copy, made once a step."""
        if instance.id not in self.owned:
            instance = instance.copy()
            self.owned.add(instance.id)
            self.state.plans[instance.id] = instance
        return instance
