"""What a world shows of a call's arguments while it runs, and what its record holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demiurge import Redaction, ToolEffect, ToolPolicy, World, tool
from demiurge.values import canonical_json


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.drop_all(arguments=("part",)))
def count_stock(part: str, reason: str) -> int:
    """Count a part."""
    return 3


async def test_frames_have_the_public_arguments_and_the_record_the_exact_ones(tmp_path: Path) -> None:
    frames: list[Mapping[str, Any]] = []
    exact = '{"part": "bolt", "reason": "canary"}'
    policy = ToolPolicy(("count_stock",))
    async with World.open(tmp_path / "w", [count_stock], policy, environment={}) as world:
        done = await world.call("count_stock", exact, "c1", on_frame=frames.append)
        assert done.ok
        [start] = [frame for frame in frames if frame["type"] == "tool_call_start"]
        assert start["args"] == {"part": "bolt"}
        assert "canary" not in repr(frames)
        [receipt] = [
            record
            for record in world.journal.read()
            if record.kind == "receipt" and "record_ref" in record.body["payload"]
        ]
        record = canonical_json.parse_object(world.blobs.get(receipt.body["payload"]["record_ref"]))
        assert record["arguments"] == {"part": "bolt"}
        assert "canary" not in repr(record)
        state = await world.state("demiurge/Calls@1", "c1")
        assert state is not None
        assert canonical_json.parse_object(world.blobs.get(state["call_ref"]))["arguments_json"] == exact
        assert (await world.replay())["ok"]
