"""The unit of a proposal takes the registry's answer from the registry alone."""

from __future__ import annotations

import pytest

from demiurge.values.caller import Caller
from demiurge.values.refs import ref_of
from demiurge.world.record import Stamp
from demiurge.world.reducer import ReducerContext
from demiurge.world.review.proposal_unit import proposal_reducer

DIGEST = ref_of(b"the proposal")
APPROVING = {
    "state": "approving",
    "body_ref": DIGEST,
    "decision": {"verdict": "approve", "by": "user:ada", "reason": "", "at": 1, "digest": DIGEST},
}
PUBLISHED = {"proposal": "p1", "digest": DIGEST, "version": 1, "code": None, "message": None}


@pytest.mark.parametrize(
    ("sender", "taken"),
    [
        ("sys/ToolRegistry@1/main", True),
        ("own/Registry@1/main", False),
        ("sys/ToolRegistry@1/other", False),
        (None, False),
    ],
)
def test_only_the_registry_says_that_a_tool_is_live(sender: str | None, taken: bool) -> None:
    context = ReducerContext(
        stamp=Stamp(1, b"", Caller("user")),
        key="p1",
        origin="unit",
        settings={},
        decide_tool=str,
        blobs={},
        cause=1,
        sender=sender,
    )
    step = proposal_reducer().reduce(APPROVING, {"$tag": "Published", "$value": PUBLISHED}, context)
    assert (step.set.get("state") == "approved") is taken
    assert bool(step.events) is taken
