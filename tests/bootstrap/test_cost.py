"""The cost of a world: the days that are counted, and how much is read for them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from demiurge.bootstrap.cost import cost_of_world
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.world.record import GENESIS, Stamp, seal_record

DAY_NS = 24 * 3600 * 10**9
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 10**9
USAGE = canonical_json.encode({"cost_usd": "0.01"})
UNIT = "demiurge/Demiurge@1/main"


ANSWER = {"token_usage": {"prompt": 1, "completion": 2}, "usage_ref": ref_of(USAGE)}


class History:
    """A journal of one chat, in which reads are counted; `days` begins it with one answer a day."""

    def __init__(self, days: int = 0) -> None:
        self.rows: list[bytes] = []
        for day in range(days):
            self.answer(day)
        self.read_rows = 0

    def answer(self, day: int, status: str = "ok") -> None:
        """Adds an answer of the model."""
        self._effect(day, "llm.generate", {"provider": "p", "model": "m"}, status, ANSWER)

    def call(self, day: int, tool: str, usage: Mapping[str, int] | None = None) -> None:
        """Adds a tool call with what the tool reports to have used."""
        self._effect(day, "tool.call", {"tool": tool}, "ok", {"usage": usage})

    def _effect(self, day: int, kind: str, params: Any, status: str, payload: Any) -> None:
        place, stamp = len(self.rows), Stamp(START + day * DAY_NS)
        intent = {"id": bytes(32), "kind": kind, "params": params}
        receipt = {"intent": bytes(32), "status": status, "payload": payload}
        for name, cause, body in (("intent", None, intent), ("receipt", place, receipt)):
            self.rows.append(seal_record(UNIT, len(self.rows), name, cause, stamp, body, GENESIS).data)

    def read(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        first = 0 if unit is not None else 1  # positions begin with 1
        rows = self.rows if unit in (None, UNIT) else []
        found = [(at, data) for at, data in enumerate(rows, first) if at >= start][:limit]
        self.read_rows += len(found)
        return found

    @property
    def backend(self) -> Any:
        blobs: dict[Ref, bytes] = {ref_of(USAGE): USAGE}
        heads = [SimpleNamespace(unit=UNIT, next_seq=len(self.rows))]
        return SimpleNamespace(
            read=SimpleNamespace(rows=self.read, get_blobs=lambda _refs: blobs, heads=lambda prefix, limit: heads)
        )


@pytest.mark.parametrize("chat", [None, "main"])
@pytest.mark.parametrize(("days", "cost"), [(1, "0.01"), (3, "0.03"), (100, "1"), (10_000_000, "1")])
def test_the_days_that_are_asked_for_are_counted(chat: str | None, days: int, cost: str) -> None:
    found = cost_of_world(History(100).backend, date(2026, 4, 10), days, chat)
    assert found["total"]["cost_usd"] == cost
    assert found["by_day"][-1]["day"] == "2026-04-10"


def test_days_after_the_last_answer_cost_nothing() -> None:
    found = cost_of_world(History(10).backend, date(2026, 4, 10), 3)
    assert (found["total"]["cost_usd"], found["by_day"]) == ("0", [])


def test_a_look_at_one_day_of_many_reads_few_records() -> None:
    history = History(2000)
    found = cost_of_world(history.backend, date(2031, 6, 23), 1)
    assert found["total"]["cost_usd"] == "0.01"
    assert history.read_rows < 40


def by_tool(history: History, day: date = date(2026, 1, 1), days: int = 1) -> dict[str | None, dict[str, Any]]:
    return {row["tool"]: row for row in cost_of_world(history.backend, day, days)["by_tool"]}


def test_an_answer_counts_for_the_tools_whose_results_it_is_the_first_to_read() -> None:
    history = History()
    history.answer(0)
    for tool in ("find", "read"):
        history.call(0, tool)
    history.answer(0)  # reads both
    history.call(0, "find")
    history.answer(0)
    found = by_tool(history)
    assert {tool: (row["calls"], row["answers"], row["shared"], row["cost_usd"]) for tool, row in found.items()} == {
        "find": (2, 2, 1, "0.02"),
        "read": (1, 1, 1, "0.01"),
        None: (0, 1, 0, "0.01"),
    }
    assert cost_of_world(history.backend, date(2026, 1, 1))["total"]["cost_usd"] == "0.03"


def test_an_answer_after_a_request_that_failed_reads_the_results() -> None:
    history = History()
    history.call(0, "find")
    history.answer(0, "error")
    history.answer(0)
    assert by_tool(history)["find"]["answers"] == 1


@pytest.mark.parametrize("calls", [1, 9])
def test_a_result_of_the_day_before_is_read_by_the_first_answer_of_a_day(calls: int) -> None:
    history = History()
    history.call(0, "old")
    history.answer(0)
    for number in range(calls):
        history.call(0, f"find{number}")
    history.answer(1)
    found = by_tool(history, date(2026, 1, 2))
    assert {tool: (row["calls"], row["answers"]) for tool, row in found.items()} == {
        f"find{number}": (0, 1) for number in range(calls)
    }


def test_the_own_use_that_tools_report_is_apart_and_an_unknown_cost_is_counted() -> None:
    history = History()
    history.call(0, "summarise", {"total_tokens": 100, "cost_micros": 1_500})
    history.call(0, "summarise", {"total_tokens": 50, "cost_micros": 0})  # tokens, and no cost
    history.call(0, "fetch", {"total_tokens": 0, "cost_micros": 250_000})
    history.call(0, "find")
    found = cost_of_world(history.backend, date(2026, 1, 1))
    assert found["total"]["cost_usd"] == "0"
    names = ("calls", "unpriced_calls", "reported_tokens", "reported_usd")
    assert [found["tools"][name] for name in names] == [4, 1, 150, "0.2515"]
    rows = {row["tool"]: [row[name] for name in names] for row in found["by_tool"]}
    assert rows == {"fetch": [1, 0, 0, "0.25"], "find": [1, 0, 0, "0"], "summarise": [2, 1, 150, "0.0015"]}
