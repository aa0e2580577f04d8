"""The module `sys/Workspace@1`: a workspace is a list of versions, moved on by commits that expect a head.

A commit whose `expected_head` is not the newest version is answered by `WorkspaceCommitRejected`: an event like any
other, never an error that stops the unit (seed 000; architecture.md 2, rule 1).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.world.reducer import Emit, Reducer, ReducerContext, Step

__all__ = ["WORKSPACE", "workspace_reducer"]

WORKSPACE = "sys/Workspace@1"


def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Version numbers start at 1; head 0 is a workspace that nobody has written to.

    Commits come from effects, whose roots are trees and whose owner the transport vouches for; no other is taken.
    """
    if context.origin != "unit":
        raise InvalidValue("a commit comes from a workspace effect")
    commit = event["$value"]
    head = len(state["versions"]) if state is not None else 0
    expected = commit["expected_head"]
    name = {"workspace": commit["workspace"]}
    if expected is not None and expected != head:
        rejected = {**name, "expected": expected, "actual": head}
        return Step(events=[Emit("sys/WorkspaceCommitRejected@1", rejected)])
    version = {
        "root_hash": commit["root_hash"],
        "owner": context.stamp.actor,
        "created_at": context.stamp.time_ns,
    }
    committed = {**name, "version": head + 1, "root_hash": commit["root_hash"]}
    return Step(append={"versions": [version]}, events=[Emit("sys/WorkspaceCommitted@1", committed)])


def workspace_reducer() -> Reducer:
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
