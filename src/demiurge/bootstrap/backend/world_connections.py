"""The connections of a world, in the process that owns it: a user's events to their units, and what the units hold.

No credentials come here: the process of whoever adds a connection puts them into the user's vault itself
(`bootstrap.connections`), so they never travel over the owner's socket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from demiurge.apps.demiurge import CHAT
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores.protocol import Store
from demiurge.tools.ids import is_tool_id
from demiurge.tools.source import ToolSource
from demiurge.values.caller import Caller
from demiurge.world.connections import (
    ANY_TOOL,
    CHOICE,
    CHOOSE,
    CONNECTION,
    CONNECTION_ADD,
    CONNECTION_REFUSED,
    CONNECTION_REVOKE,
)
from demiurge.world.host import Host
from demiurge.world.unit import Unit

__all__ = ["WorldConnection", "add", "choose", "listed", "named", "revoke"]

MAX_NAME_BYTES: Final = 256
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class WorldConnection:
    """A connection of a world. `tools`: those that may use it, None: all. `expires_at_ms`, `added_at_ms` and
    `revoked_at_ms` are milliseconds since 1970. `state` is `no_credentials` where this user's vault has none for it,
    `login_needed` where a person has to log in again. `used_by`: the chats that use it, each with the tools for which
    it is chosen there; empty: for all others. `wanted_scopes`: those that its server asked for and that it lacks.
    """

    id: str
    provider: str
    credential_type: str
    tenant: str
    scopes: tuple[str, ...]
    tools: tuple[str, ...] | None
    expires_at_ms: int | None
    state: Literal["usable", "expired", "revoked", "no_credentials", "login_needed"]
    added_by: str
    added_at_ms: int
    revoked_by: str | None
    revoked_at_ms: int | None
    reason: str
    used_by: Mapping[str, tuple[str, ...]]
    wanted_scopes: tuple[str, ...] = ()


async def add(host: Host, connection_id: str, terms: Mapping[str, Any], caller: Caller) -> None:
    """Adds a connection; the same again changes nothing. Raises InvalidValue, Conflict (`exists`)."""
    _check(connection_id, "connection_id")
    for name in ("provider", "credential_type"):
        _check(terms.get(name), name)
    if terms.get("tenant"):
        _check(terms["tenant"], "tenant")
    for scope in terms.get("scopes") or ():
        _check(scope, "scopes")
    for tool in terms.get("tools") or ():
        if not is_tool_id(tool):
            raise InvalidValue(f"{tool!r} is no id of a tool", path="tools")
    value = {"connection_id": connection_id, **terms}
    try:
        await _take(host, CONNECTION_ADD, value, caller)
    except Conflict:
        there = host.state(Unit(CONNECTION, connection_id)).cell or {}
        wanted = host.manifest.schemas.validator(CONNECTION_ADD).normalise(value)
        if (there["added_by"], *(there[name] for name in terms)) != (caller.actor, *(wanted[name] for name in terms)):
            raise


async def revoke(host: Host, connection_id: str, reason: str, caller: Caller) -> None:
    """Ends a connection for good; the same again changes nothing. Raises NotFound."""
    await _take(host, CONNECTION_REVOKE, {"connection_id": connection_id, "reason": reason}, caller)


async def choose(host: Host, unit: str, tool: str | None, connection_id: str | None, caller: Caller) -> None:
    """Lets the calls of a unit use a connection; with `tool` those of one tool; None: no connection. Raises
    InvalidValue, NotFound, Conflict (`revoked`)."""
    name = str(Unit.parse(unit))
    if tool is not None and not is_tool_id(tool):
        raise InvalidValue(f"{tool!r} is no id of a tool", path="tool")
    if connection_id is not None:
        cell = host.state(Unit(CONNECTION, connection_id)).cell
        if cell is None:
            raise NotFound(
                f"There is no connection {connection_id}; `demiurge connections ls` lists those of this world.",
                code="connection_not_found",
            )
        if cell["revoked"] is not None:
            raise Conflict(f"The connection {connection_id} was revoked: add another one.", code="revoked")
    await _take(host, CHOOSE, {"unit": name, "tool": tool, "connection_id": connection_id}, caller)


def listed(host: Host, store: Store, now_ns: int) -> list[WorldConnection]:
    """Every connection, oldest first, the revoked ones too."""
    uses: dict[str, dict[str, list[str]]] = {}
    for key, cell in _cells(host, store, CHOICE, f"{CHAT}/"):
        for tool, connection_id in cell["chosen"].items():
            uses.setdefault(connection_id, {}).setdefault(Unit.parse(key).key, []).append(tool)
    found = [_listed(key, cell, uses.get(key, {}), now_ns) for key, cell in _cells(host, store, CONNECTION)]
    return sorted(found, key=lambda connection: (connection.added_at_ms, connection.id))


def _listed(key: str, cell: Mapping[str, Any], uses: Mapping[str, list[str]], now_ns: int) -> WorldConnection:
    revoked, tools, ends_ms = cell["revoked"], cell["tools"], cell["expires_at_ms"]
    is_over = ends_ms is not None and now_ns // _MS >= ends_ms
    return WorldConnection(
        id=key,
        provider=cell["provider"],
        credential_type=cell["credential_type"],
        tenant=cell["tenant"],
        scopes=tuple(cell["scopes"]),
        tools=None if tools is None else tuple(sorted(tools)),
        expires_at_ms=ends_ms,
        state="revoked" if revoked is not None else "expired" if is_over else "usable",
        added_by=cell["added_by"],
        added_at_ms=cell["added_at"] // _MS,
        revoked_by=None if revoked is None else revoked["by"],
        revoked_at_ms=None if revoked is None else revoked["at"] // _MS,
        reason="" if revoked is None else revoked["reason"],
        used_by={chat: tuple(tool for tool in sorted(tools) if tool) for chat, tools in uses.items()},
    )


def _cells(host: Host, store: Store, module: str, prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The keys and cells of a module's units."""
    for head in list(store.heads(f"{module}/{prefix}")):
        unit = Unit.parse(head.unit)
        cell = host.state(unit).cell
        if cell is not None:
            yield unit.key, cell


def named(calls: list[dict[str, Any]], host: Host, source: ToolSource) -> list[dict[str, Any]]:
    """Returns the waiting calls; a call that would use a connection gets the field `connection`, `{id, provider}`."""
    for call in calls:
        tool = source.get(call.get("tool", ""))
        if tool is None or not tool.requires_connection:
            continue
        choice = host.state(Unit(CHOICE, call["unit"])).cell
        chosen = choice["chosen"] if choice is not None else {}
        connection_id = tool.connection_id or chosen.get(tool.spec.name, chosen.get(ANY_TOOL))
        cell = host.state(Unit(CONNECTION, connection_id)).cell if connection_id is not None else None
        if cell is not None:
            call["connection"] = {"id": connection_id, "provider": cell["provider"]}
    return calls


async def _take(host: Host, schema: str, value: Mapping[str, Any], caller: Caller) -> None:
    """Takes a user's event in. Raises what its unit answers: Conflict, NotFound, UsageError."""
    accepted = await host.submit(schema, value, caller=caller)
    for record in host.records(Unit.parse(accepted.unit), accepted.seq + 1):
        if record.is_ingress:
            return
        if record.kind == "event" and record.body["schema"] == CONNECTION_REFUSED:
            said = record.body["value"]
            raise _ERRORS[said["code"]](said["message"], code=said["code"])


_ERRORS: Mapping[str, type[DemiurgeError]] = {
    "exists": Conflict,
    "connection_not_found": NotFound,
    "not_allowed": UsageError,
}


def _check(text: object, path: str) -> None:
    if not (isinstance(text, str) and text.isprintable() and 0 < len(text.encode()) <= MAX_NAME_BYTES):
        raise InvalidValue(f"is 1 to {MAX_NAME_BYTES} bytes of printable text", path=path)
