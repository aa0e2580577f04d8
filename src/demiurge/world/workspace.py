"""The module `sys/Workspace@1`: a workspace is a list of versions, moved on by commits and edits that expect a head.

What can't be done (a head that is not the newest version, a path that can't be) is answered by an event like any other,
never an error that stops the unit (seed 000; architecture.md 2, rule 1).

A commit names a whole tree, and comes from an effect, which made the tree under a grant. An edit is a person's own: it
names one path and a blob, and the tree is made here, so that nobody can publish one that was written by hand.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values.refs import Ref, ref_of
from demiurge.world import trees
from demiurge.world.reducer import Emit, Reducer, ReducerContext, Step
from demiurge.world.trees import Changed, TreeError

__all__ = ["COMMITTED", "EDIT", "EDIT_REFUSED", "MAX_FILE", "REJECTED", "WORKSPACE", "workspace_reducer"]

WORKSPACE = "sys/Workspace@1"

EDIT = "sys/WorkspaceEdit@1"
COMMITTED = "sys/WorkspaceCommitted@1"
REJECTED = "sys/WorkspaceCommitRejected@1"
EDIT_REFUSED = "sys/WorkspaceEditRefused@1"

MAX_FILE = 16 << 20
"""Most bytes of a file that an edit writes."""

MAX_ENTRIES = 10_000
"""Most entries of a folder that an edit adds to; a longer one could not be listed."""


def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Version numbers start at 1; head 0 is a workspace that nobody has written to.

    Commits come from effects, whose roots are trees and whose owner the transport vouches for; no other is taken.
    """
    wanted = event["$value"]
    if event["$tag"] == "Commit" and context.origin != "unit":
        raise InvalidValue("a commit comes from a workspace effect")
    if event["$tag"] == "Edit" and not _is_person(context):
        return _refused(wanted, "not_allowed", "Only a person edits a workspace; tools and plans ask for effects.")
    head = len(state["versions"]) if state is not None else 0
    expected = wanted["expected_head"]
    if expected is not None and expected != head:
        rejected = {"workspace": wanted["workspace"], "expected": expected, "actual": head}
        return Step(events=[Emit(REJECTED, rejected)])
    if event["$tag"] == "Commit":
        return _committed(wanted, head, wanted["root_hash"], context)
    old = Ref(state["versions"][-1]["root_hash"]) if state is not None and head else ref_of(trees.EMPTY)
    try:
        root, nodes = _edited(old, wanted, context)
    except TreeError as error:
        return _refused(wanted, error.code, error.message)
    return _committed(wanted, head, root, context, nodes)


def _is_person(context: ReducerContext) -> bool:
    """Whether the transport says that this comes from a user, and from no unit."""
    actor = context.stamp.actor
    return context.origin == "external" and (actor == "user" or actor.startswith("user:"))


def _edited(old: Ref, edit: Mapping[str, Any], context: ReducerContext) -> Changed:
    """The tree after the edit. Raises TreeError."""
    path, ref = edit["path"], edit["bytes_ref"]
    if ref is None:
        return trees.remove(context.blob, old, path)
    size = len(context.blob(ref))
    if size > MAX_FILE:
        raise TreeError(f"A file takes at most {MAX_FILE} bytes.", code="too_large")
    edited = trees.write(context.blob, old, path, ref, size)
    if trees.find(context.blob, old, path) is None:
        folder = trees.find(context.blob, old, path.rpartition("/")[0])
        if folder is not None and sum(1 for _ in trees.walk(context.blob, folder)) >= MAX_ENTRIES:
            raise TreeError(f"A folder takes at most {MAX_ENTRIES} entries.", code="too_large")
    return edited


def _committed(
    wanted: Mapping[str, Any], head: int, root: Ref, context: ReducerContext, nodes: list[bytes] | None = None
) -> Step:
    version = {"root_hash": root, "owner": context.stamp.actor, "created_at": context.stamp.time_ns}
    committed = {"workspace": wanted["workspace"], "version": head + 1, "root_hash": root}
    return Step(append={"versions": [version]}, events=[Emit(COMMITTED, committed)], blobs=nodes or ())


def _refused(edit: Mapping[str, Any], code: str, message: str) -> Step:
    refused = {"workspace": edit["workspace"], "path": edit["path"], "code": code, "message": message}
    return Step(events=[Emit(EDIT_REFUSED, refused)])


def workspace_reducer() -> Reducer:
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
