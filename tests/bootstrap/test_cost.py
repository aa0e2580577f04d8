"""The cost of a world: the days that are counted, and how much is read for them."""

from __future__ import annotations

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


class History:
    """A journal with one answer a day, in which reads are counted."""

    def __init__(self, days: int) -> None:
        self.rows: list[bytes] = []
        for day in range(days):
            params = {"provider": "p", "model": "m"}
            intent = {"id": bytes(32), "kind": "llm.generate", "params": params}
            payload = {"token_usage": {"prompt": 1, "completion": 2}, "usage_ref": ref_of(USAGE)}
            receipt = {"intent": bytes(32), "status": "ok", "payload": payload}
            for kind, cause, body in (("intent", None, intent), ("receipt", 2 * day, receipt)):
                stamp = Stamp(START + day * DAY_NS)
                self.rows.append(seal_record(UNIT, len(self.rows), kind, cause, stamp, body, GENESIS).data)
        self.read_rows = 0

    def read(self, unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        first = 0 if unit is not None else 1  # positions begin with 1
        found = [(at, data) for at, data in enumerate(self.rows, first) if at >= start][:limit]
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
