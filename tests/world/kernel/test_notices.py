"""Ingresses that are recorded and from which the kernel computes nothing, and the fork, which renames the world."""

from __future__ import annotations

import pytest
from tests.world.small_world import Kernel, echo_result, plain_data, small_manifest


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("erased", {"ref": "sha256:" + "0" * 64, "actor": "anna", "why": "asked for"}),
        ("loss", {"what": "the vault", "actor": "anna", "why": "disk"}),
        ("doubt_decided", {"id": "d1"}),
    ],
)
def test_a_notice_is_recorded_and_changes_nothing_else(kind: str, body: dict[str, str]) -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    before = plain_data(unit.state)
    [record] = unit.take(kind, body)
    assert (record.kind, record.body) == (kind, body)
    assert plain_data(unit.state) == {**before, "seq": before["seq"] + 1, "head": record.hash}
    assert (unit.last.intents, unit.last.outbox, unit.last.answers) == ((), (), ())


def test_after_a_fork_the_unit_asks_as_a_unit_of_the_new_world() -> None:
    forked, other = Kernel(small_manifest()), Kernel(small_manifest())
    for unit in (forked, other):
        unit.poke("ask:x")
    body = {"world": "world_2", "from": "world_1", "position": 4}
    [record] = forked.take("fork", body)
    assert (record.kind, record.body) == ("fork", body)
    assert forked.state.world == "world_2"
    assert [intent.id for intent in forked.intents] == [intent.id for intent in other.intents], "open ones stay"
    other.take("loss", {"what": "w", "actor": "a", "why": "y"})
    for unit in (forked, other):
        unit.poke("ask:y")
    (_, later), (_, there) = forked.intents, other.intents
    assert later.seq == there.seq
    assert later.id != there.id
    forked.receipt(later, echo_result("y"))
    assert forked.log[-1] == "ok:y"
