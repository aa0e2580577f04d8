"""The modules `sys/Connection@1` and `sys/ConnectionChoice@1`: the connections of a world, and which calls use them.

A connection names an account at a provider; its credentials are in the user's vault (`world.connection_credentials`)
and never here. What a connection may be used for is fixed when it is added, and the only change afterwards is its
revocation. A choice names, for one unit such as a chat, the connection that its tool calls use.

Only a caller with the role `user` adds, revokes or chooses. Every other caller is answered with an event, never with an
error that stops the unit.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from demiurge.world.reducer import Emit, Reducer, ReducerContext, Step

__all__ = [
    "ANY_TOOL",
    "CHOICE",
    "CHOOSE",
    "CONNECTION",
    "CONNECTION_ADD",
    "CONNECTION_REFUSED",
    "CONNECTION_REVOKE",
    "connection_reducers",
]

CONNECTION = "sys/Connection@1"
CHOICE = "sys/ConnectionChoice@1"

CONNECTION_ADD = "sys/ConnectionAdd@1"
CONNECTION_REVOKE = "sys/ConnectionRevoke@1"
CHOOSE = "sys/ConnectionChoose@1"
CONNECTION_REFUSED = "sys/ConnectionRefused@1"

ANY_TOOL = ""
"""In a choice: stands for the tools for which no other connection is chosen."""


def reduce_connection(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of a connection, which is added once and revoked once."""
    value = event["$value"]
    if not _is_user(context):
        return _refused(context.key, "not_allowed", "Only a user adds and revokes connections.")
    if event["$tag"] == "Add":
        if state is not None:
            return _refused(context.key, "exists", "There is a connection with this id already.")
        terms = {name: value[name] for name in value if name != "connection_id"}
        added = {"added_by": context.stamp.actor, "added_at": context.stamp.time_ns}
        return Step(set={**terms, **added, "revoked": None})
    if state is None:
        return _refused(context.key, "connection_not_found", "There is no such connection.")
    if state["revoked"] is not None:
        return Step()
    by, at = context.stamp.actor, context.stamp.time_ns
    return Step(set={"revoked": {"by": by, "at": at, "reason": value["reason"]}})


def reduce_choice(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of a unit's choice: `chosen` maps tools to connections. `changed_at` is the time of the last
    change, so that an earlier approval counts for no other connection."""
    if not _is_user(context):
        return _refused(event["connection_id"] or "", "not_allowed", "Only a user chooses connections.")
    before = state["chosen"] if state is not None else {}
    tool, wanted = event["tool"] or ANY_TOOL, event["connection_id"]
    chosen = {name: before[name] for name in before if name != tool}
    if wanted is not None:
        chosen[tool] = wanted
    if state is not None and chosen == dict(before):
        return Step()
    return Step(set={"chosen": chosen, "changed_at": context.stamp.time_ns})


def _is_user(context: ReducerContext) -> bool:
    """Returns whether the event comes from a user and from no unit."""
    return context.origin == "external" and "user" in context.stamp.caller.roles


def _refused(connection_id: str, code: str, message: str) -> Step:
    refused = {"connection_id": connection_id, "code": code, "message": message}
    return Step(events=[Emit(CONNECTION_REFUSED, refused)])


def connection_reducers() -> dict[str, Reducer]:
    """Returns the code of both modules, by module name."""
    source = inspect.getsource(sys.modules[__name__]).encode()
    return {CONNECTION: Reducer(reduce_connection, source), CHOICE: Reducer(reduce_choice, source)}
