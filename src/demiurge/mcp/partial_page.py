"""A page of a server's list that has malformed entries: the others are read, and each malformed one is named.

The SDK refuses a page as a whole. So the page is asked for once more, and its entries are checked one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from demiurge.mcp.definition import Kind, visible
from mcp import ClientSession

__all__ = ["MAX_NAMED", "PartialPage", "read_partial_page", "words"]

MAX_NAMED: Final = 20
"""The most malformed entries of a page that are named."""

_MAX_WORDS: Final = 200

_REQUESTS: Final[dict[Kind, Any]] = {
    "tool": (types.ListToolsRequest, types.ListToolsResult, "tools"),
    "prompt": (types.ListPromptsRequest, types.ListPromptsResult, "prompts"),
    "resource": (types.ListResourcesRequest, types.ListResourcesResult, "resources"),
    "template": (types.ListResourceTemplatesRequest, types.ListResourceTemplatesResult, "resourceTemplates"),
}


@dataclass(frozen=True, slots=True)
class PartialPage:
    """The well-formed entries of a page, as the SDK gives a page, and a sentence for each of the others."""

    page: Any
    problems: tuple[str, ...]


async def read_partial_page(session: ClientSession, kind: Kind, params: types.PaginatedRequestParams) -> PartialPage:
    """Reads a page that the SDK refused. Raises MCPError, and ValueError if it is no list at all."""
    request, result, field = _REQUESTS[kind]
    data = request(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)
    options: Any = {}
    session._stamp(data, options)  # the SDK gives no other way to an answer that it refuses
    raw = await session._dispatcher.send_raw_request(data["method"], data.get("params"), options)
    entries = raw.get(field)
    if not isinstance(entries, list):
        raise ValueError("the page is no list")
    version = session.protocol_version or types.LATEST_PROTOCOL_VERSION
    good, problems = [], list[str]()
    for number, entry in enumerate(entries, 1):
        try:
            validate_server_result(data["method"], version, {**raw, field: [entry]})
            result.model_validate({**raw, field: [entry]}, by_name=False)
            good.append(entry)
        except ValidationError as error:
            problems.append(f"The {kind} {_name(entry, number)} is left out: {_fault(error)}.")
    page = result.model_validate({**raw, field: good}, by_name=False)
    if kind == "tool":
        session._absorb_tool_listing(page, complete=params.cursor is None and page.next_cursor is None)
    more = len(problems) - MAX_NAMED
    named = [
        *problems[:MAX_NAMED],
        *([f"{more} more {kind}s are left out, which are malformed too."] if more > 0 else []),
    ]
    return PartialPage(page, tuple(named))


def _name(entry: Any, number: int) -> str:
    name = entry.get("name") if isinstance(entry, dict) else None
    return words(name) if isinstance(name, str) and name.strip() else f"number {number} of its page"


def _fault(error: ValidationError) -> str:
    """Returns where an entry breaks the protocol, and how, in one line."""
    found = error.errors(include_url=False, include_input=False)[0]
    steps = [str(step) for step in found["loc"] if not isinstance(step, int)][1:]
    place = ".".join(step for step in steps if step.isidentifier() and step[:1].islower())
    said = found["msg"].partition(" or instance of ")[0]
    return words(f"{place or 'it'}: {said}").rstrip(".")


def words(text: str) -> str:
    """Returns a short text of a server on one line, for people."""
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= _MAX_WORDS else f"{shown[: _MAX_WORDS - 1]}…"
