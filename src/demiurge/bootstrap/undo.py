"""Takes back what the last turn of a chat changed in workspaces, by edits of the person who asks for it.

Invariant: only a path that still has the content which the turn gave it is put back; what somebody changed later stays.
Each edit is a version of its own, so nothing of the turn is lost. Nothing else is taken back: the result names the
calls that did more than change workspaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.journal import Journal
from demiurge.bootstrap.trace_view import records_of_chat
from demiurge.bootstrap.workspace import Workspace
from demiurge.errors import Conflict, NotFound
from demiurge.tools.errors import ToolErrorCode
from demiurge.values.refs import Ref
from demiurge.world.effect_kinds import TOOL
from demiurge.world.trees import Change, TreeEntry, TreeError
from demiurge.world.unit import Unit

if TYPE_CHECKING:
    from demiurge.bootstrap.world import World

__all__ = ["UndoneTurn", "undo_turn"]

COMMIT: Final = "workspace.commit"
READS: Final = "read_only"
OUTSIDE: Final = "external_side_effect"
"""The level of tools that may do more than the journal says: what their own code does is in no record."""

BEGUN: Final = frozenset(
    code.value
    for code in (
        ToolErrorCode.CANCELLED,
        ToolErrorCode.EXECUTION,
        ToolErrorCode.OUTPUT_VALIDATION,
        ToolErrorCode.REDACTION_FAILED,
        ToolErrorCode.RESULT_TOO_LARGE,
        ToolErrorCode.TIMEOUT,
        ToolErrorCode.UNKNOWN_OUTCOME,
    )
)
"""The codes of failed calls whose tool may have run."""

NEAR: Final = 16
"""How many events of a chat are looked at first for the last message."""


@dataclass
class UndoneTurn:
    """The outcome of an undo. `restored` and `removed` are places, `WORKSPACE/PATH`, that have their earlier content or
    are gone again; `changed_since` were changed by somebody later, and `refused` could not be put back. `others` are
    the tools whose calls did something else, and how often."""

    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed_since: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """Returns sentences for the user."""
        said = [
            f"{words}: {', '.join(places)}."
            for words, places in (
                ("Put back", self.restored),
                ("Removed again", self.removed),
                ("Left as it is, because it was changed since", self.changed_since),
                ("Could not be put back", self.refused),
            )
            if places
        ]
        if not said:
            said = ["The last turn changed no file in a workspace."]
        if self.others:
            calls = ", ".join(
                f"{tool}{f' ({count} calls)' if count > 1 else ''}" for tool, count in self.others.items()
            )
            said.append(f"What these calls did can't be taken back here: {calls}.")
        return said


async def undo_turn(world: World, chat_id: str) -> UndoneTurn:
    """Takes back the changes that the last turn of a chat made in workspaces. Raises NotFound (`chat_unknown`),
    Conflict (`chat_busy`) while the turn goes on, UsageError (`role_missing`), Unavailable."""
    standing = await world.chat(chat_id).standing()
    if standing is None or standing.last_request_id == 0:
        raise NotFound(f"Chat {chat_id} has no turn to take back.", code="chat_unknown")
    if standing.is_open:
        raise Conflict(
            "The last turn is not over: decide what it waits for, or stop it, and undo then.", code="chat_busy"
        )
    done = UndoneTurn()
    versions = _effects(world, chat_id, standing.last_request_id, done.others)
    for name, numbers in versions.items():
        await _put_back(Workspace(world, name), sorted(numbers), done)
    return done


def _effects(world: World, chat_id: str, request_id: int, others: dict[str, int]) -> dict[str, list[int]]:
    """Returns the versions that the turn made, by workspace, and counts the calls that did something else in
    `others`."""
    unit = Unit(CHAT, chat_id)
    levels = {spec["name"]: spec["effect"] for spec in world.manifest()["toolset"]}
    intents: dict[int, Mapping[str, Any]] = {}
    calls: dict[str, str] = {}
    only_workspaces: dict[str, bool] = {}
    versions: dict[str, list[int]] = {}
    for view in Journal(world.backend).views(unit, _first(world, chat_id, request_id)):
        body = view["body"]
        if view["kind"] == "intent":
            intents[view["seq"]] = body
            if body["kind"] == TOOL:
                calls[_hex(body["id"])] = body["params"]["tool"]
        intent = intents.get(view["cause"]) if view["kind"] == "receipt" and isinstance(view["cause"], int) else None
        if intent is None or body["status"] not in ("ok", "unknown_outcome"):
            continue
        if intent["kind"] == TOOL:
            call = _hex(intent["id"])
            may_have_run = body["payload"].get("ok") or body["payload"].get("error_code") in BEGUN
            level = levels.get(calls[call])
            is_taken_back = level != OUTSIDE and only_workspaces.get(call, False)
            if may_have_run and level != READS and not is_taken_back:
                others[calls[call]] = others.get(calls[call], 0) + 1
        elif intent["origin"].get("kind") == "tool":
            parent = _hex(intent["origin"]["parent"])
            is_workspace = intent["kind"].startswith("workspace.")
            only_workspaces[parent] = only_workspaces.get(parent, True) and is_workspace
            if intent["kind"] == COMMIT and body["payload"].get("ok"):
                versions.setdefault(intent["params"]["workspace"], []).append(body["payload"]["version"])
    return versions


def _first(world: World, chat_id: str, request_id: int) -> int:
    """Returns the number of the record of a message in its chat's unit."""
    for count in (NEAR, None):
        for record in records_of_chat(world.backend, chat_id, count):
            value = record.body.get("value") or {}
            if value.get("$tag") == "UserMessage" and value["$value"]["request_id"] == request_id:
                return record.unit_seq
    raise NotFound(f"The record of the last message of chat {chat_id} can't be found.", code="no_record")


def _hex(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


async def _put_back(workspace: Workspace, numbers: list[int], done: UndoneTurn) -> None:
    touched: dict[str, tuple[str, int, int]] = {}
    for number in numbers:
        for change in await _changes(workspace, number):
            _, first, _ = touched.get(change.path, ("", number, number))
            touched[change.path] = (change.kind, first, number)
    for path, (kind, first, last) in sorted(touched.items(), reverse=True):
        before, after, now = [await _ref(workspace, path, at) for at in (first - 1, last, None)]
        place = f"{workspace.name}/{path}"
        if now == before or (kind == "dir" and before is not None):
            continue
        if now != after and kind == "file":
            done.changed_since.append(place)
            continue
        try:
            if before is None:
                await workspace.remove(path)
                if kind == "file":
                    done.removed.append(place)
            else:
                await workspace.write(path, workspace.world.blobs.get(before))
                done.restored.append(place)
        except TreeError as error:
            if kind == "file":
                done.refused.append(f"{place} ({error.message.rstrip('.')})")


async def _changes(workspace: Workspace, number: int) -> Sequence[Change | TreeEntry]:
    """Returns what a version changed: paths with their kinds."""
    if number > 1:
        return await workspace.diff(number - 1, number)
    found: list[TreeEntry] = [*await workspace.children("", 1)]
    for entry in found:
        if entry.kind == "dir":
            found += await workspace.children(entry.path, 1)
    return found


async def _ref(workspace: Workspace, path: str, number: int | None) -> Ref | None:
    """Returns the address of what is at a path in a version; None if nothing is."""
    if number == 0:
        return None
    try:
        return (await workspace.find(path, number)).ref
    except NotFound:
        return None
