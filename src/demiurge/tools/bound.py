"""A tool as the runner sees it: its spec and four functions, with no schema library behind them.

A tool written in Python binds itself to this; so does a tool of an MCP server or a graph. Because the runner
knows nothing else, there is no second path for any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from demiurge.tools.context import ToolContext
from demiurge.tools.ledger.idempotency import IdempotencyConfig
from demiurge.tools.spec import ToolSpec

__all__ = ["BoundTool"]


@dataclass(frozen=True, slots=True)
class BoundTool:
    """`parse(json_text) -> params` raises ToolValidationError. `call(params, context)` gives a ToolResult,
    or an awaitable of one when `is_async`. `dump(value) -> JSON bytes` raises ToolValidationError; `load`
    is its inverse. `dump_params(params) -> (JSON, is it all)` is for telling calls apart; without it params
    are JSON already.

    `inline`: a `def` handler quick enough to run on the event loop. `timeout_ms`: its own limit.
    `capabilities`: types that must be bound in `context.resources`. `idempotency` and `reconcile` are for
    the ledger. `works_through_capabilities`: all it does is ask for effects, so a world may run it again after a
    crash and answer it from what it recorded. `result_type`: the type of its values, None where they are plain JSON."""

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
