"""The MCP servers of a world and their tools, as people see them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from demiurge.bootstrap.mcp_tools import counted_effect, problem_of, read_definition, settings_of
from demiurge.errors import DemiurgeError
from demiurge.mcp.definition import KINDS, Change, Kind, difference, effect_by_hints, visible
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.effect import ToolEffect
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.mcp_servers import shown_pin

__all__ = ["ListingInfo", "McpServerView", "McpToolView", "server_view", "target_of"]

_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class McpToolView:
    """A tool of an MCP server, or a prompt, a resource or a template, as `kind` says. `name`: the server's name of it;
    `prompt:NAME`, `resource:URI` or `template:URI` of the others. `tool_id`: the id under which it is called; a model
    calls tools only.

    `state`: `trusted`; `quarantined`: its definition changed since a person trusted it; `new`: nobody trusted it;
    `gone`: trusted, but the server does not list it any more. `rule` (`ask`, `allow`), `effect` (the level that the
    person named, None: the server's hints decide), `public` (the fields of its results that screens show), `by` and
    `trusted_at_ms` are None for a tool that nobody trusted. `effect_by_server`: the level of the server's hints, None
    if it gives none. `counted_effect`: the level that counts, the stricter of both. `pin`: the digest of the trusted
    definition; `found_pin`: that of the definition which the server listed last; `found_at_ms`: since when it differs.
    `changes`: from the trusted definition to the one listed last. `description`: of the definition listed last.
    `definition`: the whole of it, as the protocol writes it. `problem`: why the tool can't be trusted as it is, None if
    it can. Texts of the server have their hidden characters made visible. `changes`, `description` and `definition` are
    left out of lists."""

    name: str
    tool_id: str
    state: Literal["trusted", "quarantined", "new", "gone"]
    rule: Literal["ask", "allow"] | None
    effect: str | None
    effect_by_server: str | None
    counted_effect: str
    public: tuple[str, ...] | None
    pin: str | None
    found_pin: str | None
    found_at_ms: int | None
    by: str | None
    trusted_at_ms: int | None
    changes: tuple[Change, ...] = ()
    description: str = ""
    problem: str | None = None
    definition: Mapping[str, Any] | None = None
    kind: Kind = "tool"


@dataclass(frozen=True, slots=True)
class McpServerView:
    """An MCP server of a world. `target`: its command line or URL, for people. `settings`: as `ServerSettings.to_json`
    returns them; secrets are names.

    `state`: `not_adopted`: it was added elsewhere, and is not started here before `adopt`; `idle`: this process has not
    asked it yet; `connected`; `failed`: `problem` says why, and `last_words` are the last lines that its process wrote
    to its standard error, with its secrets masked; no model is shown them. `is_local`: this user added or adopted it in
    this place. `protocol`, `server_name`, `server_version`, `instructions`: what it said when it listed its tools last,
    at `listed_at_ms` (None: never); empty before. `problems`: what is wrong with that listing. Times are in
    milliseconds since 1970."""

    name: str
    transport: Literal["stdio", "http"]
    target: str
    settings: Mapping[str, Any]
    state: Literal["not_adopted", "idle", "connected", "failed"]
    is_local: bool
    problem: str | None
    protocol: str
    server_name: str
    server_version: str
    instructions: str
    problems: tuple[str, ...]
    listed_at_ms: int | None
    added_by: str
    added_at_ms: int
    tools: tuple[McpToolView, ...]
    last_words: tuple[str, ...] = ()


class ListingInfo(NamedTuple):
    """The words of a server about itself when it listed its tools last; kept in the blob that its cell names."""

    protocol: str = ""
    server_name: str = ""
    server_version: str = ""
    instructions: str = ""
    problems: tuple[str, ...] = ()

    def to_blob(self) -> bytes:
        return canonical_json.encode({**self._asdict(), "problems": list(self.problems)})

    @classmethod
    def of_blob(cls, blob: bytes) -> ListingInfo:
        node = canonical_json.parse_object(blob)
        return cls(**{**node, "problems": tuple(node["problems"])})


def server_view(
    name: str,
    cell: Mapping[str, Any],
    get_blob: Callable[[Ref], bytes],
    *,
    is_local: bool,
    state: Literal["idle", "connected", "failed"],
    problem: str | None,
    last_words: tuple[str, ...],
    details: bool,
) -> McpServerView:
    """Returns the view of a server with this cell. `state`, `problem`, `last_words`: of its connection in this process.
    Without `details` the tools have no descriptions and changes."""
    settings = settings_of(cell)
    said = ListingInfo()
    if cell["listing_ref"] is not None:
        try:
            said = ListingInfo.of_blob(get_blob(cell["listing_ref"]))
        except DemiurgeError as error:
            said = ListingInfo(problems=(f"What it said about itself can't be read: {error.message}",))
    tools = [tool_view(tool, cell, get_blob, details=details) for tool in sorted({*cell["tools"], *cell["found"]})]
    tools.sort(key=lambda tool: KINDS.index(tool.kind))
    return McpServerView(
        name=name,
        transport=settings.transport,
        target=target_of(settings),
        settings=settings.to_json(),
        state=state if is_local else "not_adopted",
        is_local=is_local,
        problem=problem,
        protocol=visible(said.protocol),
        server_name=visible(said.server_name),
        server_version=visible(said.server_version),
        instructions=visible(said.instructions),
        problems=tuple(visible(each) for each in said.problems),
        listed_at_ms=_ms(cell["listed_at"]),
        added_by=cell["added_by"],
        added_at_ms=cell["added_at"] // _MS,
        tools=tuple(tools),
        last_words=last_words,
    )


def tool_view(tool: str, cell: Mapping[str, Any], get_blob: Callable[[Ref], bytes], *, details: bool) -> McpToolView:
    """Returns the view of the tool with this id."""
    trusted, found_pin = cell["tools"].get(tool), shown_pin(cell, tool)
    assert found_pin is not None
    shown, unread = read_definition(tool, found_pin, get_blob)
    if trusted is None:
        return McpToolView(
            name=visible(shown.label),
            tool_id=tool,
            state="new",
            rule=None,
            effect=None,
            effect_by_server=_text(effect_by_hints(shown)),
            counted_effect=str(counted_effect(shown, None)),
            public=None,
            pin=None,
            found_pin=found_pin,
            found_at_ms=cell["found"][tool]["at"] // _MS,
            by=None,
            trusted_at_ms=None,
            description=visible(shown.description or "") if details else "",
            problem=unread or problem_of(tool, shown),
            definition=_visible_json(shown.to_json()) if details else None,
            kind=shown.kind,
        )
    quarantined = trusted["quarantined"]
    pinned = shown if quarantined is None else read_definition(tool, trusted["pin"], get_blob)[0]
    return McpToolView(
        name=visible(pinned.label),
        tool_id=tool,
        state="gone" if trusted["gone"] else "trusted" if quarantined is None else "quarantined",
        rule=trusted["rule"],
        effect=trusted["effect"],
        effect_by_server=_text(effect_by_hints(shown)),
        counted_effect=str(counted_effect(pinned, trusted["effect"])),
        public=tuple(trusted["public"]),
        pin=trusted["pin"],
        found_pin=found_pin,
        found_at_ms=quarantined["at"] // _MS if quarantined is not None else None,
        by=trusted["by"],
        trusted_at_ms=trusted["at"] // _MS,
        changes=tuple(difference(pinned, shown)) if details else (),
        description=visible(shown.description or "") if details else "",
        problem=unread or problem_of(tool, shown),
        definition=_visible_json(shown.to_json()) if details else None,
        kind=pinned.kind,
    )


def target_of(settings: ServerSettings) -> str:
    """Returns the command line or the URL of a server, for people."""
    return visible(shlex.join(settings.command) if settings.transport == "stdio" else settings.target)


def _visible_json(node: Any) -> Any:
    """Returns JSON with the hidden characters of its texts and names made visible."""
    if isinstance(node, str):
        return visible(node)
    if isinstance(node, dict):
        return {visible(name): _visible_json(value) for name, value in node.items()}
    return [_visible_json(value) for value in node] if isinstance(node, list) else node


def _text(effect: ToolEffect | None) -> str | None:
    return None if effect is None else str(effect)


def _ms(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // _MS
