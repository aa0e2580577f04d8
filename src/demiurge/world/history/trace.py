"""The causal tree of an event: its consequences, how each branch ended, and what it waits for (docs/architecture.md,
rule 6).

A trace is a query over the journal's causes. Nothing is stored for it, so it also works on a world that another process
has open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from demiurge.tools.taint_words import taint_reason
from demiurge.world.history.call_state import STOPPED, State, state_of_code
from demiurge.world.record import Cause

__all__ = ["LineageOutcome", "TraceLine", "TracedRecord", "lineage", "outcome", "trace"]

BY_A_PERSON: Final = frozenset({"answered", "changed", "rejected"})
"""The states that a person's decision makes."""

EDITED: Final = "approval_edited"
"""The code of the decision that ends a call whose arguments a person changed."""

Place: TypeAlias = tuple[str, int]
"""A unit and a sequence number."""


class TracedRecord(Protocol):
    """The parts of a record that a trace reads: of a `Record`, or of a redacted one that lacks what is not public."""

    @property
    def unit(self) -> str: ...

    @property
    def unit_seq(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def cause(self) -> Cause: ...

    @property
    def body(self) -> Mapping[str, Any]: ...


R = TypeVar("R", bound=TracedRecord)


@dataclass(frozen=True, slots=True)
class TraceLine(Generic[R]):
    """One record of the tree, in reading order. `depth` counts the causes between it and the root; `is_last` is true
    if no later record has the same cause. `says` describes the record in a few words; `why` gives the reason of a
    failure, and `by` the person whose decision `state` is."""

    record: R
    depth: int
    is_last: bool
    state: State
    says: str
    why: str = ""
    by: str = ""


class LineageOutcome(NamedTuple):
    """The state of a whole lineage: it waits for a person (`waiting`) or a receipt (`running`), a step or a plan of it
    failed, or it is done. `failed` holds the failures in the order of the tree, also while the rest goes on.

    A failure that was handled, such as a tool's call whose failure a model was told, does not fail the lineage. A plan
    that waits for an event leaves no record, so it counts as done.
    """

    state: Literal["waiting", "running", "failed", "done"]
    failed: tuple[TraceLine[Any], ...] = ()


def outcome(lines: Sequence[TraceLine[Any]]) -> LineageOutcome:
    """Returns the state of a lineage, given all its lines."""
    failed = tuple(line for line in lines if line.state == "failed" and line.record.kind in ("step", "plan_ended"))
    states = {line.state for line in lines}
    if "awaiting_approval" in states:
        return LineageOutcome("waiting", failed)
    if "running" in states:
        return LineageOutcome("running", failed)
    return LineageOutcome("failed" if failed else "done", failed)


def lineage(records: Iterable[R], root: Place) -> list[R]:
    """Returns the record at `root` and all its consequences, in order. `records` are in the order of positions."""
    reached: set[Place] = {root}
    found = []
    for record in records:
        place = (record.unit, record.unit_seq)
        if place == root or _cause(record) in reached:
            reached.add(place)
            found.append(record)
    return found


def trace(records: Sequence[R]) -> list[TraceLine[R]]:
    """Returns the tree of a lineage, whose first record is the root."""
    children: dict[Place, list[R]] = defaultdict(list)
    for record in records[1:]:
        cause = _cause(record)
        assert cause is not None
        children[cause].append(record)
    return list(_lines(records[0], children)) if records else []


def _lines(root: R, children: Mapping[Place, list[R]]) -> Iterator[TraceLine[R]]:
    waiting = [(root, 0, True)]
    while waiting:
        record, depth, is_last = waiting.pop()
        consequences = children.get((record.unit, record.unit_seq), [])
        state, why = _state(record, consequences)
        by = record.body["by"] if record.kind == "approval" and state in BY_A_PERSON else ""
        yield TraceLine(record, depth, is_last, state, _says(record), why, by)
        waiting += [(child, depth + 1, child is consequences[-1]) for child in reversed(consequences)]


def _cause(record: TracedRecord) -> Place | None:
    if isinstance(record.cause, Mapping):
        return record.cause["unit"], record.cause["seq"]
    return None if record.cause is None else (record.unit, record.cause)


def _state(record: TracedRecord, consequences: Sequence[TracedRecord]) -> tuple[State, str]:
    body = record.body
    match record.kind:
        case "intent" if body.get("admitted", {}).get("verdict") == "deny":
            return "denied", _reason(body["admitted"])
        case "intent":
            return _waits(body, consequences), ""
        case "receipt":
            return _received(body, consequences)
        case "approval" if body["verdict"] == "expire":
            return "expired", ""
        case "approval" if body["verdict"] == "reject":
            reason = body.get("reason", "")
            return ("stopped", "") if reason == STOPPED else ("rejected", reason)
        case "approval" if "call_ref" in body:
            return "changed", ""
        case "approval" if body["verdict"] == "answer":
            return "answered", ""
        case "decision" if body["verdict"] == "allow" or body.get("code") == EDITED:
            return "", ""
        case "decision":
            return "denied", _reason(body)
        case "step" if "error" in body:
            return "failed", _reason(body["error"])
        case "plan_ended":
            return ("ok", "") if body["status"] == "ok" else ("failed", _reason(body.get("error") or body))
        case _:
            return "", ""


def _received(body: Mapping[str, Any], consequences: Sequence[TracedRecord]) -> tuple[State, str]:
    """Returns the state of a receipt. One with questions to a person ends nothing."""
    if "asks" in body:
        return "", ""
    payload = body.get("payload", {})
    if body["status"] != "ok":
        return state_of_code(payload.get("code")), _reason(payload)
    if isinstance(payload, Mapping) and payload.get("ok") is False:
        return state_of_code(payload.get("error_code"), payload.get("message", "")), _refused(payload)
    return ("" if consequences else "ok"), ""


def _waits(intent: Mapping[str, Any], consequences: Sequence[TracedRecord]) -> State:
    """Returns the state of an intent. A decision, a person's rejection, or changed
    arguments end it as a receipt does."""
    if any(child.kind in ("receipt", "decision") for child in consequences):
        return ""
    decisions = [child.body for child in consequences if child.kind == "approval"]
    if "approval" in intent and "approved" not in intent and not decisions:
        return "awaiting_approval"
    going_on = ("approve", "answer", "end")
    return "" if any(body["verdict"] not in going_on or "call_ref" in body for body in decisions) else "running"


def _refused(payload: Mapping[str, Any]) -> str:
    """Returns the reason in a payload that is not ok: its code and message, or its plain fields (a commit that found
    another version has only those)."""
    coded = _reason({"code": payload.get("error_code"), "message": payload.get("message")})
    plain = [f"{name} {value}" for name, value in payload.items() if value != "" and type(value) in (str, int)]
    return coded or ": ".join(["not ok", *([", ".join(plain)] if plain else [])])


def _reason(body: Mapping[str, Any]) -> str:
    return ": ".join(str(body[name]) for name in ("code", "message") if body.get(name))


def _taint(decision: Mapping[str, Any]) -> str:
    """Returns, after a decision, which untrusted text the turn had read; "" for none."""
    return f", {taint_reason(decision['tainted'])}" if decision.get("tainted") else ""


def _observed(decision: Mapping[str, Any]) -> str:
    """Returns, after a decision, what the tool policy would have decided while it is observed; "" if it is enforced."""
    would_be = (decision.get("observed") or {}).get("verdict")
    return f"; the tool policy, which is observed, says {would_be}" if would_be is not None else ""


def _says(record: TracedRecord) -> str:
    body = record.body
    match record.kind:
        case "event":
            value = body.get("value")
            tag = value.get("$tag") if isinstance(value, Mapping) else None
            return f"{body['schema']} {tag}" if tag else body["schema"]
        case "intent":
            params = body["params"] if isinstance(body.get("params"), Mapping) else {}
            admitted = body.get("admitted", {})
            what = params.get("tool") or params.get("model") or params.get("path") or params.get("url") or ""
            decided = f"{body['kind']} {what} (by {admitted.get('by')}, {admitted.get('rule')})".replace("  ", " ")
            return decided + _taint(admitted) + _observed(admitted)
        case "decision":
            replaced = ", replaced by the call with changed arguments" if body.get("code") == EDITED else ""
            return str(body.get("kind", "")) + replaced + _taint(body)
        case "capability_request":
            return str(body.get("kind", ""))
        case "approval":
            verdict = "ended without an answer" if body["verdict"] == "end" else body["verdict"]
            return f"{verdict} by {body['by']}{', with changed arguments' if 'call_ref' in body else ''}"
        case "plan_ended":
            return str(body["plan"])
        case "settled":
            return ", ".join(f"{name} {used}" for name, used in body["used"].items() if used) or "nothing used"
        case "doubt_decided":
            said = f": {body['reason']}" if "reason" in body else ""
            return f"{'done' if body['done'] else 'not done'}, says {body['by']}{said}"
        case "manifest":
            return str(body["ref"])
        case "receipt":
            return _used(body)
        case _:
            return ""


def _used(receipt: Mapping[str, Any]) -> str:
    """Returns what a receipt says besides its result: whether the call asked, the secrets, or the connection."""
    if "asks" in receipt:
        return "asked a person"
    if receipt.get("secrets"):
        return "with " + ", ".join(f"{handed['alias']}@{handed['version']}" for handed in receipt["secrets"])
    if receipt.get("connection"):
        used = receipt["connection"]
        name = f"connection {used['id']} ({used['provider'] or 'unknown'})"
        return f"with {name}" if used["lent"] else f"without {name}"
    return ""
