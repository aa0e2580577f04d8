"""Rebuilds the entries of a lost ledger from the journal: each call that was begun becomes a doubt in the new ledger.

The journal says which tools were called with which arguments, and the tool itself computes the key. An equal call is
then answered `unknown_outcome`, as after a crash, until a person settles the doubt. A call whose tool is missing here,
or whose arguments were erased, can't be rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from demiurge.bootstrap.ledger_slots import slots_of_call
from demiurge.errors import DemiurgeError
from demiurge.stores.protocol import Row, Store
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.ledger.store import LedgerSlot
from demiurge.tools.policy import ToolPolicyContext
from demiurge.tools.source import ToolSource
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.clock import Clock
from demiurge.world.effect_kinds import TOOL
from demiurge.world.record import Record, decode_row

__all__ = ["doubt_again"]

_NOTHING_DONE = frozenset(
    {
        ToolErrorCode.POLICY_DENIED,
        ToolErrorCode.APPROVAL_REQUIRED,
        ToolErrorCode.INVALID_JSON,
        ToolErrorCode.VALIDATION,
        ToolErrorCode.UNAVAILABLE,
        ToolErrorCode.EXECUTION,
    }
)
"""The error codes of calls that left no entry in the ledger."""


class _Intent(NamedTuple):
    """The record of a call's intent, and the caller of the ingress that caused it, whom the record itself does not
    name."""

    record: Record
    caller: Caller


def doubt_again(store: Store, source: ToolSource, ledger: SqliteEffectLedger, clock: Clock) -> int:
    """Adds a doubt to `ledger` for each call that was begun and has no entry there. Returns the number of doubts. Reads
    all records. Raises Damaged, Archived, Unavailable."""
    begun: dict[bytes, _Intent] = {}
    ingress: Row | None = None
    for row in store.read_all():
        ingress = row if row.ingress_id is not None else ingress  # a step's records follow their ingress
        if row.kind == "intent":
            record = decode_row(row)
            if record.body["kind"] == TOOL and ingress is not None:
                begun[record.body["id"]] = _Intent(record, decode_row(ingress).stamp.caller)
        elif row.kind == "receipt" and begun:
            body = decode_row(row).body
            if body["intent"] in begun and _did_nothing(body):
                del begun[body["intent"]]
    found = 0
    for intent in store.attempts(list(begun)):
        for slot, ttl_ns in _slots(store, source, begun[intent]):
            claim = ledger.claim(slot, params_hash="", ttl_ns=ttl_ns, now_ns=clock.now_ns()).claimed
            if claim is not None:
                ledger.doubt(claim)
                found += 1
    return found


def _did_nothing(receipt: Mapping[str, Any]) -> bool:
    payload = receipt["payload"]
    return isinstance(payload, dict) and payload.get("ok") is False and payload.get("error_code") in _NOTHING_DONE


def _slots(store: Store, source: ToolSource, intent: _Intent) -> list[tuple[LedgerSlot, int | None]]:
    """Returns the slots in which a ledger has the entry of a call, under its unit's session or its run, with the time
    to live."""
    params, unit = intent.record.body["params"], intent.record.unit
    tool = source.get(params["tool"])
    if tool is None or tool.idempotency is None:
        return []
    caller = ToolPolicyContext.of(intent.caller, run_id=unit)
    try:
        arguments = str(canonical_json.parse_object(store.get_blob(params["call_ref"]))["arguments_json"])
    except DemiurgeError:
        return []
    return [(slot, tool.idempotency.ttl_ns) for slot in slots_of_call(store, tool, arguments, caller, unit)]
