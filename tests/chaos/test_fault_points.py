"""kill -9 between any two steps that have a name: at each of its first hits, and while that is repaired."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.chaos.child_control import Nursery
from tests.chaos.outside_observer import Outside
from tests.chaos.world_checks import Ledger, assert_all_turns_answered, assert_nothing_lost

from demiurge import faults

TURNS = 2
CHATS = ("anna",)
ELSEWHERE = {"meta.after_commit", "meta.before_commit", "outbox.before_delivery"} | {
    "snapshot.after_commit",
    "snapshot.before_commit",
    "manifest.accepted",
    "manifest.kept",
    "connections.after_commit",
    "connections.before_commit",
    "store.after_rewrite",
    "store.before_rewrite",
    *(name for name in faults.POINTS if name.startswith(("erase.", "erased.", "gc.", "remove.", "tiles.", "upgrade."))),
    *(
        name
        for name in faults.POINTS
        if name.startswith(
            ("archive.", "connection.", "file.", "doubt.", "fork.", "hand_over.", "layer.", "ledger.", "oauth.")
        )
    ),
    *(name for name in faults.POINTS if name.startswith(("mcp.", "webhook."))),
}
"""Points that a chat does not pass; their own tests are in tests/stores (`test_erasing_crash.py` kills at each of
`erase.` and `erased.`), tests/filesystems, tests/chaos/test_accept_loss_kill.py, tests/bootstrap/test_fork.py,
tests/bootstrap/test_doubts.py (which kills at each of `doubt.`), tests/bootstrap/test_connections.py (`connection.`),
tests/bootstrap/mcp/test_mcp_kill.py (`mcp.`),
tests/bootstrap/test_webhook_kill.py (`webhook.`), tests/bootstrap/test_hand_over.py (`hand_over.`),
tests/bootstrap/test_prompt_tool_files.py (`layer.`),
tests/bootstrap/test_manifest_of_others.py and tests/world/host/test_host.py."""

QUICK = ((1, 2),)
FULL = ((1, 1), (2, 1), (3, 1), (3, 2, 1), (5, 3), (8, 2), (13, 1), (21,))
"""Hits at which the processes that work on a world, one after the other, are killed."""


def kill_at_hits(point: str, hits: tuple[int, ...], nursery: Nursery, outside: Outside, folder: Path) -> int:
    """How many of the kills took place; after them the world is finished in peace."""
    outside.seen.clear()
    ledger = Ledger(folder, outside, 0)
    fired = 0
    for fault in (*(f"{point}=kill@{hit}" for hit in hits), ""):
        process = nursery.start(ledger.folder, outside.url, turns=TURNS, chats=CHATS, faults=fault)
        status = process.wait()
        ledger.hear(process)
        assert status in ((0, -signal.SIGKILL) if fault else (0,)), process.complaints
        fired += status != 0
        if status and process.told("open"):
            assert_nothing_lost(ledger)
    assert_all_turns_answered(ledger, TURNS, CHATS)
    return fired


@pytest.mark.sampled
@pytest.mark.parametrize("point", sorted(set(faults.POINTS) - ELSEWHERE))
def test_a_kill_at_a_fault_point_loses_and_doubles_nothing(
    point: str, nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    outside.pause_s = 0.0
    assert sum(kill_at_hits(point, hits, nursery, outside, tmp_path / str(hits)) for hits in QUICK)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", sorted(set(faults.POINTS) - ELSEWHERE))
def test_kills_at_any_hit_of_a_fault_point_lose_and_double_nothing(
    point: str, nursery: Nursery, outside: Outside, tmp_path: Path
) -> None:
    outside.pause_s = 0.0
    assert sum(kill_at_hits(point, hits, nursery, outside, tmp_path / str(hits)) for hits in FULL)
