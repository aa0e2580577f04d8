"""The tools of a world's MCP servers, as its toolset has them: made from the cells of the servers, or, before a host
runs, from the manifest that was in force last.

They belong to the world, not to the process that has it open: every process that owns the world has the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from demiurge.errors import DemiurgeError
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.settings import ServerSettings
from demiurge.mcp.tool import CallsTools, effect_that_counts, quarantined_tool, server_tool
from demiurge.stores.protocol import Store
from demiurge.tools.bound import BoundTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import PromptValidationError
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.tools.redaction import Redaction
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import Ref
from demiurge.world.manifest_log import last_entry
from demiurge.world.mcp_servers import MCP_SERVER

__all__ = [
    "cell_tools",
    "counted_effect",
    "definition_of",
    "is_servers",
    "problem_of",
    "read_definition",
    "recorded_tools",
    "server_of",
    "settings_of",
]


def server_of(spec: ToolSpec) -> str | None:
    """Returns the name of the MCP server that a tool is of; None for any other tool. Servers' names have no `__`."""
    prefix, name, *rest = (*spec.name.split("__"), "", "")
    return name if prefix == "mcp" and rest[0] and (spec.untrusted or spec.quarantined) else None


def is_servers(spec: ToolSpec) -> bool:
    """Returns whether a spec is that of a server's tool, which may belong to the world and not to a process."""
    return spec.untrusted and spec.name.startswith("mcp__")


def settings_of(cell: Mapping[str, Any]) -> ServerSettings:
    """Returns the settings in the cell of a server. Raises InvalidValue."""
    return ServerSettings.of_json(canonical_json.parse_object(cell["settings"].encode()))


def definition_of(blob: bytes) -> ToolDefinition:
    """Returns the definition in the blob that a pin is the address of."""
    return ToolDefinition.of_json(canonical_json.parse_object(blob))


def read_definition(tool: str, pin: Ref, get_blob: Callable[[Ref], bytes]) -> tuple[ToolDefinition, str | None]:
    """Returns the definition of a tool and None; if it can't be read, because it was erased for example, one without a
    word and the reason."""
    try:
        return definition_of(get_blob(pin)), None
    except DemiurgeError as error:
        return ToolDefinition(tool, input_schema={}), f"its definition can't be read: {error.message}"


def counted_effect(definition: ToolDefinition, by_person: str | None) -> ToolEffect:
    """Returns the effect level that counts: the stricter of the level that a person named and the server's hints; the
    strictest of all if there is neither."""
    return effect_that_counts(definition, ToolEffect(by_person) if by_person is not None else None)


@lru_cache(1024)
def problem_of(tool_id: str, definition: ToolDefinition) -> str | None:
    """Returns why a tool with this definition can't be trusted, as a sentence; None if it can."""
    words = definition.description or definition.title
    try:
        foreign_tool(tool_id, words, definition.input_schema, _not_run, redaction=Redaction())
    except PromptValidationError as error:
        return error.message
    return None


def cell_tools(
    server: str,
    cell: Mapping[str, Any],
    get_blob: Callable[[Ref], bytes],
    calls: CallsTools,
    made: MutableMapping[bytes, BoundTool],
) -> tuple[list[BoundTool], list[str]]:
    """Returns the tools of a server by its cell, which call it by `calls`, and a sentence for each that can't be had.
    Of a server with trusted tools, those that nobody trusts are there as well: quarantined, without a word of it.
    `made`: the tools that were made before for `calls`, which are used again."""
    found, problems, settings = list[BoundTool](), list[str](), settings_of(cell)
    for tool, trusted in sorted(cell["tools"].items()):
        try:
            said = {name: trusted[name] for name in ("pin", "rule", "effect", "public")}
            key = cbor.digest([cell["settings"], tool, said, trusted["quarantined"] is not None])
            if key not in made:
                made[key] = _trusted_tool(settings, trusted, get_blob, calls)
            found.append(made[key])
        except DemiurgeError as problem:
            problems.append(f"The tool {tool} can't be used: {problem.message}")
    for _, new in sorted(cell["found"].items()) if cell["tools"] else ():
        try:
            found.append(quarantined_tool(server, definition_of(get_blob(new["pin"])).label))
        except DemiurgeError:
            continue  # it is not offered either way
    return found, problems


def _trusted_tool(
    settings: ServerSettings, trusted: Mapping[str, Any], get_blob: Callable[[Ref], bytes], calls: CallsTools
) -> BoundTool:
    bound = server_tool(
        calls,
        settings,
        definition_of(get_blob(trusted["pin"])),
        effect=ToolEffect(trusted["effect"]) if trusted["effect"] is not None else None,
        redaction=Redaction.paths(*trusted["public"]) if trusted["public"] else Redaction.drop_all(),
        trust=trusted["rule"],
        quarantined=trusted["quarantined"] is not None,
    )
    connection_id = settings.connection_id
    return replace(bound, requires_connection=connection_id is not None, connection_id=connection_id)


def recorded_tools(store: Store) -> list[BoundTool]:
    """Returns the servers' tools in the manifest that was in force last. They can be shown and decided on; a host that
    runs replaces them before it calls any."""
    if next(store.heads(f"{MCP_SERVER}/"), None) is None:
        return []
    try:
        last = last_entry(store)
        node = cbor.decode(store.get_blob(last.ref)) if last is not None else None
    except DemiurgeError:
        return []
    if node is None:
        return []
    asked = frozenset(node["tool_policy"]["require_approval_for_tools"])
    specs = (ToolSpec.from_json(spec) for spec in node["toolset"])
    return [_recorded(spec, asked) for spec in specs if is_servers(spec)]


def _recorded(spec: ToolSpec, asked: frozenset[str]) -> BoundTool:
    trust: Literal["ask", "allow"] = "ask" if spec.name in asked else "allow"
    return BoundTool(spec, _not_run, _not_run, _not_run, _not_run, is_async=True, trust=trust)


def _not_run(*_arguments: Any) -> Any:
    raise RuntimeError("a tool of an MCP server is called by the owner of its world")
