"""A tool as the runner sees it: its spec and a few functions, without a schema library.

A tool written in Python is bound to this form, and so is a tool of an MCP server or a graph. The runner knows no
other form, so all tools run on one path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from demiurge.tools.context import ToolContext
from demiurge.tools.ledger.idempotency import IdempotencyConfig
from demiurge.tools.spec import ToolSpec

__all__ = ["BoundTool"]


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A tool in the form that the runner calls.

    `parse(json_text) -> params` raises ToolValidationError. `call(params, context)` returns a ToolResult, or an
    awaitable of one if `is_async`. `dump(value) -> JSON bytes` raises ToolValidationError; `load` is its inverse.
    `dump_params(params) -> (JSON, complete)` tells calls apart; without it the params are JSON already.

    `inline`: a `def` handler that is quick enough to run on the event loop. `timeout_ms`: the tool's own limit.
    `capabilities`: types that must be bound in `context.resources`. `idempotency` and `reconcile` are for the ledger.
    `works_through_capabilities`: the handler does nothing but ask for effects, so a world may run it again after a
    crash and answer its requests from the records. `result_type`: the type of its values, None if they are plain JSON.
    `is_own_code`: the tool was written in Python for this program, so its effect level is the word of its author; False
    for a tool that a server or a catalog lists. `trust`: what the person who trusted a server's tool said of its calls,
    "ask" before each or "allow" them; None for a tool that nobody had to trust. `connection_id`: in a world, the
    connection that its calls use whatever is chosen for their chat; None: the chosen one."""

    spec: ToolSpec
    parse: Callable[[str | bytes], Any]
    call: Callable[[Any, ToolContext], Any]
    dump: Callable[[Any], bytes]
    load: Callable[[bytes], Any]
    is_async: bool = False
    inline: bool = False
    timeout_ms: int | None = None
    capabilities: tuple[Any, ...] = ()
    works_through_capabilities: bool = False
    requires_connection: bool = False
    idempotency: IdempotencyConfig | None = None
    reconcile: Callable[..., Any] | None = None
    dump_params: Callable[[Any], tuple[Any, bool]] | None = None
    result_type: Any = None
    is_own_code: bool = False
    trust: Literal["ask", "allow"] | None = None
    connection_id: str | None = None
