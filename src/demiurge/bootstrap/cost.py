"""The cost of a world's model answers, by chat, day and model.

Invariant: an unknown cost is None, never 0, and sums are exact (`values.money`). A sum that includes an answer of
unknown cost has no `cost_usd`; its `known_usd` is a lower bound.

Only the records of the requested days are read, and one usage blob for each answer; a binary search finds the first
record. Records are in the order of their positions. If the clock of the machine was set back, records of about that
time may count to the day before or after the requested ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.answer_cost import costs_in_usages
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.journal import Journal
from demiurge.errors import NotFound
from demiurge.values.money import add_micros, dollars_text
from demiurge.world.effect_kinds.llm import LLM
from demiurge.world.record import Record, decode_record
from demiurge.world.unit import Unit

__all__ = ["DAYS", "cost_of_world"]

DAYS = 30
"""The number of days that are reported by default."""


@dataclass(frozen=True, slots=True)
class _PricedAnswer:
    """One answer of a model. `micros` is its exact cost in millionths of a dollar, None if it is not known."""

    unit: str
    day: str
    model: str
    prompt: int
    completion: int
    usage_ref: str | None
    micros: Decimal | None = None


def cost_of_world(backend: Backend, today: date, days: int = DAYS, chat_id: str | None = None) -> dict[str, Any]:
    """Returns the cost of the answers of the `days` up to `today` (UTC), of all units or of one chat: `{since, until,
    total, by_chat, by_day, by_model}`. `total`, and each entry of the lists beside its `chat` (with its `unit`), `day`
    or `model`, is `{answers, unpriced, prompt_tokens, completion_tokens, cost_usd, known_usd}`.

    `chat` is None for a unit that is no chat; a model is named with its provider, `openai-responses/gpt-5`. `unpriced`
    counts the answers of unknown cost. A request that ended without an answer is not counted. Raises NotFound;
    Unavailable for records in an archive that is away."""
    try:
        since = today - timedelta(days=days - 1)
    except OverflowError:
        since = date.min
    unit = Unit(CHAT, chat_id) if chat_id is not None else None
    if unit is not None and not any(head.unit == str(unit) for head in backend.read.heads(str(unit), 1)):
        raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="chat_unknown")
    found = list(_answers(backend, unit, since, today))
    costs = costs_in_usages(backend, [answer.usage_ref for answer in found])
    answers = [replace(answer, micros=micros) for answer, micros in zip(found, costs, strict=True)]
    return {
        "since": since.isoformat(),
        "until": today.isoformat(),
        "total": _sum(answers),
        "by_chat": [_of_unit(name) | part for name, part in _grouped(answers, lambda answer: answer.unit)],
        "by_day": [{"day": day} | part for day, part in _grouped(answers, lambda answer: answer.day)],
        "by_model": [{"model": model} | part for model, part in _grouped(answers, lambda answer: answer.model)],
    }


def _answers(backend: Backend, unit: Unit | None, since: date, until: date) -> Iterator[_PricedAnswer]:
    intents: dict[tuple[str, int], Record] = {}
    for record in Journal(backend).read(unit, _first(backend, unit, since)):
        if record.kind == "intent":
            intents[record.unit, record.unit_seq] = record
        day = _day(record)
        if record.kind != "receipt" or record.body["status"] != "ok" or not since <= day <= until:
            continue
        assert isinstance(record.cause, int)
        intent = intents.pop((record.unit, record.cause), None) or _record(backend, record.unit, record.cause)
        if intent.kind != "intent" or intent.body["kind"] != LLM:
            continue
        params, payload = intent.body["params"], record.body["payload"]
        used = payload.get("token_usage") or {}
        yield _PricedAnswer(
            record.unit,
            day.isoformat(),
            f"{params['provider']}/{params['model']}",
            used.get("prompt", 0),
            used.get("completion", 0),
            payload.get("usage_ref"),
        )


def _first(backend: Backend, unit: Unit | None, since: date) -> int:
    """Returns the position, or sequence number in `unit`, of the first record of the day `since` or a later one."""
    name = str(unit) if unit is not None else None
    low, high = 0, 1
    while (found := _at(backend, name, high)) is not None and _day(found) < since:
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        found = _at(backend, name, middle)
        if found is not None and _day(found) < since:
            low = middle + 1
        else:
            high = middle
    return low


def _at(backend: Backend, unit: str | None, start: int) -> Record | None:
    rows = backend.read.rows(unit, start, 1)
    return decode_record(rows[0][1], position=rows[0][0]) if rows else None


def _record(backend: Backend, unit: str, seq: int) -> Record:
    found = _at(backend, unit, seq)
    assert found is not None, "a record's cause is before it"
    return found


def _day(record: Record) -> date:
    return datetime.fromtimestamp(record.stamp.time_ns / 1e9, UTC).date()


def _of_unit(name: str) -> dict[str, Any]:
    unit = Unit.parse(name)
    return {"chat": unit.key if unit.module == CHAT else None, "unit": name}


def _grouped(
    answers: Iterable[_PricedAnswer], key: Callable[[_PricedAnswer], str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, group in groupby(sorted(answers, key=key), key):
        yield name, _sum(list(group))


def _sum(answers: list[_PricedAnswer]) -> dict[str, Any]:
    known = [answer.micros for answer in answers if answer.micros is not None]
    total = dollars_text(add_micros(known))
    return {
        "answers": len(answers),
        "unpriced": len(answers) - len(known),
        "prompt_tokens": sum(answer.prompt for answer in answers),
        "completion_tokens": sum(answer.completion for answer in answers),
        "cost_usd": total if len(known) == len(answers) else None,
        "known_usd": total,
    }
