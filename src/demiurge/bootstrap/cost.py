"""The cost of a world's model answers, by chat, day and model, and by the tools whose results were read.

Invariant: an unknown cost is None, never 0, and sums are exact (`values.money`). A sum that includes an answer of
unknown cost has no `cost_usd`; its `known_usd` is a lower bound.

An answer *reads* a tool's result if it is the first answer of its unit after the result. An answer that reads the
results of several tools is in the row of each of them (`shared`), so these rows may add up to more than the total.
Later answers are sent the result again, as a part of the history, and are not counted for the tool.

Only the records of the requested days are read, and one usage blob for each answer; a binary search finds the first
record. Records are in the order of their positions. If the clock of the machine was set back, records of about that
time may count to the day before or after the requested ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

from demiurge.apps.demiurge import CHAT, TITLES
from demiurge.bootstrap.answer_cost import costs_in_usages
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.budget_notices import budgets_near_end
from demiurge.bootstrap.chat_state import ChatCell
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.records_by_day import day_of, first_day, first_record, record_at
from demiurge.errors import NotFound
from demiurge.values.clock import SystemClock
from demiurge.values.money import add_micros, dollars_text
from demiurge.world.effect_kinds import TOOL
from demiurge.world.effect_kinds.llm import LLM
from demiurge.world.record import Record, decode_record
from demiurge.world.unit import Unit

__all__ = ["DAYS", "cost_of_world", "cost_with_budgets", "today"]

DAYS = 30
"""The number of days that are reported by default."""

LOOK_BACK = 12
"""The number of records that are read at once to find the answer before a record."""


@dataclass(frozen=True, slots=True)
class _PricedAnswer:
    """One answer of a model. `micros` is its exact cost in millionths of a dollar, None if it is not known."""

    unit: str
    day: str
    model: str
    prompt: int
    completion: int
    usage_ref: str | None
    tools: frozenset[str]
    """The tools whose results the answer reads."""
    micros: Decimal | None = None


@dataclass(frozen=True, slots=True)
class _ReportedCall:
    """One tool call, and what the tool itself reported to have used: None if it reported nothing."""

    tool: str
    tokens: int | None
    micros: int | None


@dataclass(slots=True)
class _Scan:
    """The answers and the calls of the days that were read."""

    answers: list[_PricedAnswer] = field(default_factory=list)
    calls: list[_ReportedCall] = field(default_factory=list)


def today() -> date:
    """Returns the day (UTC) by the clock of this machine."""
    return datetime.fromtimestamp(SystemClock().now_ns() / 1e9, UTC).date()


def cost_of_world(backend: Backend, until: date, days: int = DAYS, chat_id: str | None = None) -> dict[str, Any]:
    """Returns the cost of the answers of the `days` up to `until` (UTC), of all units or of one chat: `{since, until,
    total, by_chat, by_day, by_model, by_tool, tools}`. `total`, and each entry of the lists beside its `chat` (with its
    `unit`), `day`, `model` or `tool`, is `{answers, unpriced, prompt_tokens, completion_tokens, cost_usd, known_usd}`.

    `chat` is None for a unit that is no chat; the request for a chat's title counts as the chat's. A model is named
    with its provider, `openai-responses/gpt-5`. `unpriced` counts the answers of unknown cost. A request that ended
    without an answer is not counted.

    An entry of `by_tool` is about the answers that read a result of the tool; `tool` None: that read none. `shared` of
    them read results of other tools too. `calls` are the tool's calls. `reported_tokens` and `reported_usd` are what
    these calls reported to have used themselves, which is in no other sum; `unpriced_calls` of them reported tokens
    without a cost. `tools` holds the same four numbers of all tools. Raises NotFound; Unavailable for records in an
    archive that is away; InvalidValue for days that are no whole number of at least 1."""
    since = first_day(until, days)
    unit = Unit(CHAT, chat_id) if chat_id is not None else None
    if unit is not None and not any(head.unit == str(unit) for head in backend.read.heads(str(unit), 1)):
        raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="chat_unknown")
    found = _scan(backend, unit, since, until)
    costs = costs_in_usages(backend, [answer.usage_ref for answer in found.answers])
    answers = [replace(answer, micros=micros) for answer, micros in zip(found.answers, costs, strict=True)]
    return {
        "since": since.isoformat(),
        "until": until.isoformat(),
        "total": _sum(answers),
        "by_chat": [_of_unit(name) | part for name, part in _grouped(answers, lambda answer: answer.unit)],
        "by_day": [{"day": day} | part for day, part in _grouped(answers, lambda answer: answer.day)],
        "by_model": [{"model": model} | part for model, part in _grouped(answers, lambda answer: answer.model)],
        "by_tool": list(_by_tool(answers, found.calls)),
        "tools": _reported(found.calls),
    }


async def cost_with_budgets(
    backend: Backend, until: date, days: int = DAYS, chat_id: str | None = None
) -> dict[str, Any]:
    """Returns what `cost_of_world` does, with the `name` of each chat (of another unit: the unit), and `budgets`: the
    limits that near their end, of the units in `by_chat`, each as `{chat, unit, name, account, dimension, used, limit,
    unpriced, says}`. Raises as `cost_of_world`."""
    found = await asyncio.to_thread(cost_of_world, backend, until, days, chat_id)
    lacking = (await backend.read.info()).get("lacking", ())
    names = {part["unit"]: await _name(backend, part, lacking) for part in found["by_chat"]}
    near = await budgets_near_end(backend, list(names))
    budgets = [_of_unit(unit) | {"name": names[unit]} | asdict(use) for unit, uses in near.items() for use in uses]
    by_chat = [{"name": names[part["unit"]], **part} for part in found["by_chat"]]
    return found | {"by_chat": by_chat, "budgets": budgets}


async def _name(backend: Backend, part: Mapping[str, Any], lacking: Collection[str]) -> str:
    standing = await ChatCell(backend, part["chat"]).standing(lacking) if part["chat"] is not None else None
    return standing.name if standing is not None else str(part["unit"])


def _scan(backend: Backend, unit: Unit | None, since: date, until: date) -> _Scan:
    found = _Scan()
    intents: dict[tuple[str, int], Record] = {}
    unread: dict[str, set[str]] = {}  # by unit: the tools whose results no answer has read yet
    first = first_record(backend, unit, since)
    for record in _records(backend, unit, first):
        if record.kind == "intent":
            intents[record.unit, record.unit_seq] = record
            continue
        assert isinstance(record.cause, int)
        place = record.unit, record.cause
        intent = intents.pop(place, None) or _record(backend, *place)
        kind, day = intent.body.get("kind"), day_of(record)
        if intent.kind != "intent" or kind not in (LLM, TOOL):
            continue
        if record.unit not in unread:
            unread[record.unit] = _unread_before(backend, record) if first > 1 else set()
        if kind == TOOL and "asks" not in record.body:
            unread[record.unit].add(intent.body["params"]["tool"])
            if since <= day <= until:
                found.calls.append(_call(intent, record))
        elif record.body["status"] == "ok" and kind == LLM:
            tools, unread[record.unit] = unread[record.unit], set()
            if since <= day <= until:
                found.answers.append(_answer(intent, record, day, frozenset(tools)))
    return found


def _records(backend: Backend, unit: Unit | None, first: int) -> Iterator[Record]:
    """Yields the intents and receipts of all units, or of a chat and the request for its title."""
    kinds = ("intent", "receipt")
    yield from Journal(backend).read(unit, first, kinds=kinds)
    if unit is not None:
        yield from Journal(backend).read(Unit(TITLES, unit.key), kinds=kinds)


def _answer(intent: Record, receipt: Record, day: date, tools: frozenset[str]) -> _PricedAnswer:
    params, payload = intent.body["params"], receipt.body["payload"]
    used = payload.get("token_usage") or {}
    return _PricedAnswer(
        _chat_of(receipt.unit),
        day.isoformat(),
        f"{params['provider']}/{params['model']}",
        used.get("prompt", 0),
        used.get("completion", 0),
        payload.get("usage_ref"),
        tools,
    )


def _call(intent: Record, receipt: Record) -> _ReportedCall:
    used = receipt.body["payload"].get("usage") if receipt.body["status"] == "ok" else None
    if used is None:
        return _ReportedCall(intent.body["params"]["tool"], None, None)
    tokens, micros = used["total_tokens"], used["cost_micros"]
    return _ReportedCall(intent.body["params"]["tool"], tokens, micros or (None if tokens else 0))


def _unread_before(backend: Backend, record: Record) -> set[str]:
    """Returns the tools of the calls between the unit's last answer before `record` and `record`."""
    found: set[str] = set()
    end = record.unit_seq
    while end > 0:
        start = max(0, end - LOOK_BACK)
        for position, data in reversed(backend.read.rows(record.unit, start, end - start)):
            earlier = decode_record(data, position=position)
            if earlier.kind != "receipt":
                continue
            assert isinstance(earlier.cause, int)
            intent = _record(backend, record.unit, earlier.cause)
            if intent.body.get("kind") == TOOL:
                found.add(intent.body["params"]["tool"])
            elif intent.body.get("kind") == LLM and earlier.body["status"] == "ok":
                return found
        end = start
    return found


def _by_tool(answers: list[_PricedAnswer], calls: list[_ReportedCall]) -> Iterator[dict[str, Any]]:
    reading: dict[str, list[_PricedAnswer]] = {call.tool: [] for call in calls}
    own: dict[str, list[_ReportedCall]] = {}
    for answer in answers:
        for tool in answer.tools:
            reading.setdefault(tool, []).append(answer)
    for call in calls:
        own.setdefault(call.tool, []).append(call)
    for tool, read in sorted(reading.items()):
        shared = sum(len(answer.tools) > 1 for answer in read)
        yield {"tool": tool, "shared": shared} | _sum(read) | _reported(own.get(tool, []))
    others = [answer for answer in answers if not answer.tools]
    if others:
        yield {"tool": None, "shared": 0} | _sum(others) | _reported([])


def _reported(calls: list[_ReportedCall]) -> dict[str, Any]:
    known = [call.micros for call in calls if call.micros is not None]
    return {
        "calls": len(calls),
        "unpriced_calls": sum(call.tokens is not None and call.micros is None for call in calls),
        "reported_tokens": sum(call.tokens or 0 for call in calls),
        "reported_usd": dollars_text(add_micros(known)),
    }


def _record(backend: Backend, unit: str, seq: int) -> Record:
    found = record_at(backend, unit, seq)
    assert found is not None, "a record's cause is before it"
    return found


def _chat_of(name: str) -> str:
    """Returns the unit whose cost an answer is: the chat, for its title."""
    unit = Unit.parse(name)
    return str(Unit(CHAT, unit.key)) if unit.module == TITLES else name


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
