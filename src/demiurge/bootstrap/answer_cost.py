"""The exact cost of the answers of a turn: the sum of the costs in their usage blobs.

Invariant: an unknown cost is None, never 0, and nothing is rounded before it is added up. The field `cost_cents` of a
record is each answer's cost rounded up to a whole cent: it suits a limit, and a sum of it would be too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_state import ChatMessage
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.stored_blobs import BlobReader
from demiurge.errors import DemiurgeError
from demiurge.values import canonical_json
from demiurge.values.money import add_micros, micros_of
from demiurge.world.unit import Unit

__all__ = ["cost_of_answers", "costs_in_usages"]


def cost_of_answers(backend: Backend, unit: Unit, request_id: int, answers: Sequence[ChatMessage]) -> Decimal | None:
    """Returns the exact millionths of a dollar that the answers of one turn cost together; 0 for none, None if one of
    them has no known cost.

    `answers` are the turn's messages of the model, oldest first. If an older version recorded a message, its usage blob
    is found through the receipt."""
    if all(answer.usage_ref for answer in answers):
        refs = [answer.usage_ref for answer in answers]
    else:
        refs = list(_recorded(backend, unit, request_id, [answer.message_ref for answer in answers]))
    costs = costs_in_usages(backend, refs)
    known = [cost for cost in costs if cost is not None]
    return add_micros(known) if len(known) == len(answers) else None


def costs_in_usages(backend: Backend, refs: Sequence[str | None]) -> list[Decimal | None]:
    """Returns the millionths of a dollar in each usage blob: exact if it has `cost_usd`; blobs of older versions have
    whole `cost_micros` alone. None for no blob, one that cannot be read, and one without a known cost."""
    blobs = BlobReader(backend, refs)
    return [_cost_in_usage(blobs, ref) for ref in refs]


def _cost_in_usage(blobs: BlobReader, ref: str | None) -> Decimal | None:
    if ref is None:
        return None
    try:
        usage = canonical_json.parse_object(blobs.get(ref))
    except DemiurgeError:
        return None
    if "cost_usd" in usage:
        dollars = usage["cost_usd"]
        return micros_of(dollars) if isinstance(dollars, str) else None
    micros = usage.get("cost_micros")
    return Decimal(micros) if type(micros) is int and micros >= 0 else None


def _recorded(backend: Backend, unit: Unit, request_id: int, outputs: Sequence[str]) -> Iterator[str | None]:
    """Yields the usage blob of each output of the turn, from its receipt."""
    waiting, begun = list(outputs), False
    try:
        for record in Journal(backend).read(unit):
            if not waiting:
                return
            if record.kind == "event" and record.is_ingress:
                value = record.body["value"]
                begun = begun or (value.get("$tag") == "UserMessage" and value["$value"]["request_id"] == request_id)
            elif begun and record.kind == "receipt" and record.body["status"] == "ok":
                payload = record.body["payload"]
                if payload.get("output_ref") == waiting[0]:
                    waiting.pop(0)
                    yield payload.get("usage_ref")
    except DemiurgeError:  # records that are damaged, or away in an archive
        return
