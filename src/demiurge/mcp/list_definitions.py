"""Reads the lists of a server: its tools, prompts, resources and resource templates, all pages, within limits.

A server that gives no list of its tools can't be used. A list of another kind that it does not give is empty, with a
sentence for people.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams, Prompt, Resource, ResourceTemplate, Tool
from pydantic import ValidationError

from demiurge.errors import InvalidValue, Unavailable
from demiurge.mcp.definition import KINDS, Kind, ToolDefinition
from demiurge.mcp.names import spelling
from demiurge.mcp.partial_page import read_partial_page, words
from mcp import Client, MCPError

__all__ = ["MAX_LISTED", "MAX_PAGES", "read_definitions"]

MAX_PAGES: Final = 50
MAX_LISTED: Final = 500
"""The most definitions of one kind that are read of one server."""

_MAX_LISTING_BYTES: Final = 8 << 20
_EXTRA: Final = {"icons", "execution", "meta"}
_PREFIXES: Final = tuple(f"{kind}:" for kind in KINDS)

Listed = Tool | Prompt | Resource | ResourceTemplate


async def read_definitions(client: Client) -> tuple[tuple[ToolDefinition, ...], list[str]]:
    """Returns the definitions that a server lists, tools first, and sentences about what was left out. Raises
    Unavailable (`server_unavailable`) if it gives no valid list of its tools, or goes."""
    can = client.server_capabilities
    kinds: list[Kind] = ["tool"]
    kinds += ["prompt"] if can.prompts is not None else []
    kinds += ["resource", "template"] if can.resources is not None else []
    lists = [_List(kind) for kind in kinds]
    async with asyncio.TaskGroup() as tasks:
        for each in lists:
            tasks.create_task(each.read(client))
    if (failed := lists[0].failed) is not None:
        raise Unavailable("The server gave no valid list of its tools.", code="server_unavailable") from failed
    found = [definition for each in lists for definition in each.definitions()]
    problems = [problem for each in lists for problem in each.problems]
    return tuple(found), problems + _look_alikes(found)


@dataclass
class _List:
    """One list of a server while it is read. `failed`: why it has none."""

    kind: Kind
    problems: list[str] = field(default_factory=list)
    failed: Exception | None = None
    _by_label: dict[str, ToolDefinition | None] = field(default_factory=dict)

    def definitions(self) -> Iterator[ToolDefinition]:
        return (definition for definition in self._by_label.values() if definition is not None)

    async def read(self, client: Client) -> None:
        """Reads the list. What goes wrong is noted."""
        try:
            await self._read_pages(self._pages(client))
        except (MCPError, ValueError, RuntimeError) as error:
            is_absent = getattr(error, "code", None) == METHOD_NOT_FOUND and not self._by_label
            if is_absent and self.kind != "template":
                self.problems.append(f"The server offers no {self.kind}s.")
            elif not is_absent and self.kind == "tool":
                self.failed = error
            elif not is_absent:
                self._by_label.clear()
                self.problems.append(f"The server gave no valid list of its {self.kind}s.")

    async def _read_pages(self, page_after: Callable[[PaginatedRequestParams], Awaitable[Any]]) -> None:
        cursor: str | None = None
        seen: set[str] = set()
        size = count = 0
        for _ in range(MAX_PAGES):
            page = await page_after(PaginatedRequestParams(cursor=cursor))
            for listed in _listed(page, self.kind):
                if count == MAX_LISTED or size > _MAX_LISTING_BYTES:
                    self.problems.append(f"The server lists too many {self.kind}s: only its first {count} are read.")
                    return
                size += self._add(listed)
                count += 1
            cursor = page.next_cursor
            if cursor is None:
                return
            if cursor in seen:
                self.problems.append(f"The server's list of {self.kind}s repeats a page.")
                return
            seen.add(cursor)
        self.problems.append(f"The server's list of {self.kind}s does not end after {MAX_PAGES} pages.")

    def _pages(self, client: Client) -> Callable[[PaginatedRequestParams], Awaitable[Any]]:
        session = client.session
        reads: dict[Kind, Callable[..., Awaitable[Any]]] = {
            "tool": session.list_tools,
            "prompt": session.list_prompts,
            "resource": session.list_resources,
            "template": session.list_resource_templates,
        }

        async def read(params: PaginatedRequestParams) -> Any:
            try:
                return await reads[self.kind](params=params)
            except ValidationError:
                found = await read_partial_page(session, self.kind, params)
            self.problems += found.problems
            return found.page

        return read

    def _add(self, listed: Listed) -> int:
        """Adds a definition, and returns its size in bytes. A label that is listed twice stands for nothing."""
        name = words(getattr(listed, "uri", None) or getattr(listed, "uri_template", None) or listed.name)
        try:
            definition = _definition(listed)
        except InvalidValue as error:
            self.problems.append(f"The {self.kind} {name} is left out: {error.message.rstrip('.')}.")
            return 0
        if definition.label in self._by_label:
            if self._by_label[definition.label] is not None:
                self.problems.append(f"The {self.kind} {name} is listed twice, so it is left out.")
            self._by_label[definition.label] = None
            return 0
        self._by_label[definition.label] = definition
        return definition.size


def _listed(page: Any, kind: Kind) -> Sequence[Listed]:
    fields = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "resource_templates"}
    found: Sequence[Listed] = getattr(page, fields[kind])
    return found


def _definition(listed: Listed) -> ToolDefinition:
    """Returns the definition of what a server lists. Raises InvalidValue."""
    extra = listed.model_dump(by_alias=True, mode="json", exclude_none=True, include=_EXTRA)
    if isinstance(listed, Tool):
        if listed.name.startswith(_PREFIXES):
            raise InvalidValue("the name begins like that of a prompt or a resource")
        hints = listed.annotations.model_dump(by_alias=True, exclude_none=True) if listed.annotations else None
        schemas = listed.input_schema, listed.output_schema
        return ToolDefinition(listed.name, listed.title, listed.description, *schemas, hints, extra=extra)
    if isinstance(listed, Prompt):
        arguments = [each.model_dump(by_alias=True, exclude_none=True) for each in listed.arguments or ()]
        texts = listed.name, listed.title, listed.description
        return ToolDefinition(*texts, kind="prompt", arguments=arguments, extra=extra)
    hints = None
    if listed.annotations is not None:  # when the content was modified is no part of the definition
        hints = listed.annotations.model_dump(by_alias=True, exclude_none=True, exclude={"last_modified"})
    texts = listed.name, listed.title, listed.description
    if isinstance(listed, Resource):
        found: dict[str, Any] = {"kind": "resource", "uri": listed.uri, "mime_type": listed.mime_type}
        return ToolDefinition(*texts, annotations=hints, **found, extra=extra)
    try:
        UriTemplate.parse(listed.uri_template)
    except InvalidUriTemplate as error:
        raise InvalidValue("its template of addresses can't be used") from error
    found = {"kind": "template", "uri": listed.uri_template, "mime_type": listed.mime_type}
    return ToolDefinition(*texts, annotations=hints, **found, extra=extra)


def _look_alikes(definitions: Sequence[ToolDefinition]) -> list[str]:
    """Returns a sentence for each tool or prompt whose name reads like that of one before it."""
    seen: dict[tuple[Kind, str], str] = {}
    named = [one for one in definitions if one.kind in ("tool", "prompt")]
    pairs = [(one.kind, seen.setdefault((one.kind, spelling(one.name)), one.name), one.name) for one in named]
    return [f"The {kind} {words(name)} reads like {words(first)}." for kind, first, name in pairs if name != first]
