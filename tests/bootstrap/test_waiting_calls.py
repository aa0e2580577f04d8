"""Calls that wait for a person in a world where what they name is damaged while it is open."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from demiurge import ToolEffect, World, tool
from demiurge.errors import Damaged
from demiurge.values.refs import parse_ref, ref_digest


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang"


def damage(folder: Path, ref: str) -> None:
    with sqlite3.connect(folder / "journal.db") as db:
        changed = db.execute("UPDATE blob SET data = x'00' WHERE digest = ?", (ref_digest(parse_ref(ref)),))
        assert changed.rowcount == 1
    db.close()


async def test_a_waiting_call_that_cannot_be_shown_is_listed_and_can_only_be_rejected(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", [ring_bell], environment={}) as world:
        damaged = await world.call("ring_bell", '{"times": 1}', "b1")
        sound = await world.call("ring_bell", '{"times": 2}', "b2")
        state = await world.state("demiurge/Calls@1", "b1")
        assert state is not None
        damage(tmp_path / "w", state["call_ref"])
        listed = {asked["id"]: asked for asked in await world.approvals()}
        assert damaged.approval is not None
        assert sound.approval is not None
        assert listed[sound.approval]["damaged"] is None
        assert listed[sound.approval]["arguments_json"] == '{"times": 2}'
        assert listed[damaged.approval]["arguments_json"] is None
        assert "damaged" in listed[damaged.approval]["damaged"]
        with pytest.raises(Damaged, match="ring_bell"):
            await world.decide(damaged.approval, approve=True)
        await world.decide(damaged.approval, approve=False, reason="nobody can see it")
        await world.settle()
        after = await world.state("demiurge/Calls@1", "b1")
        assert after is not None
        assert after["outcome"]["error_code"] == "approval_rejected"
        assert [asked["id"] for asked in await world.approvals()] == [sound.approval]


@pytest.mark.parametrize(
    "statement", ["DELETE FROM waiting", "DELETE FROM waiting_sum", "UPDATE waiting SET unit = 'x'"]
)
async def test_a_damaged_list_of_what_waits_hides_no_call(tmp_path: Path, statement: str) -> None:
    async with World.open(tmp_path / "w", [ring_bell], environment={}) as world:
        called = [await world.call("ring_bell", '{"times": 1}', name) for name in ("b1", "b2", "b3")]
    with sqlite3.connect(tmp_path / "w" / "journal.db") as db:
        assert db.execute(statement).rowcount > 0
    db.close()
    async with World.open(tmp_path / "w", [ring_bell], environment={}) as world:
        first, *others = [call.approval for call in called]
        assert first is not None
        await world.decide(first, approve=True)
        assert (await world.call("ring_bell", '{"times": 1}', "b1")).status == "done"
        listed = await world.approvals()
        assert sorted(asked["id"] for asked in listed) == sorted(str(other) for other in others)
        assert all(asked["damaged"] is None for asked in listed)
