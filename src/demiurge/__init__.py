"""Demiurge: a durable, governed tool runtime for LLM agents.

Every tool call that a model proposes is decided by policy (and by a person, where the policy says so), performed once,
and recorded so that it can be replayed and audited. Use `ToolRunner` inside a loop of your own, or open a `World`: a
durable agent in one directory.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demiurge.bootstrap import Chat, Reply, ToolCallView, World
    from demiurge.errors import (
        Conflict,
        Damaged,
        DemiurgeError,
        Divergence,
        InvalidValue,
        NotFound,
        Unavailable,
        UsageError,
    )
    from demiurge.tools import (
        AiEvent,
        ApprovalDecision,
        ApprovalRequest,
        ApprovalStore,
        Budgets,
        CompositeToolSource,
        InMemoryApprovals,
        Introspection,
        PromptValidationError,
        Redaction,
        ResourceRegistry,
        StaticToolSource,
        Tool,
        ToolCatalog,
        ToolContext,
        ToolEffect,
        ToolErrorCode,
        ToolExample,
        ToolExecResult,
        ToolInvocationRecord,
        ToolPolicy,
        ToolPolicyContext,
        ToolResult,
        ToolRunner,
        ToolSource,
        ToolSpec,
        ToolUserError,
        ToolValidationError,
        Workspaces,
        tool,
    )
    from demiurge.values import Ref
    from demiurge.world.host import Accepted

_HOMES = {
    "demiurge.bootstrap": ("Chat", "Reply", "ToolCallView", "World"),
    "demiurge.errors": (
        "Conflict",
        "Damaged",
        "DemiurgeError",
        "Divergence",
        "InvalidValue",
        "NotFound",
        "Unavailable",
        "UsageError",
    ),
    "demiurge.tools": (
        "AiEvent",
        "ApprovalDecision",
        "ApprovalRequest",
        "ApprovalStore",
        "Budgets",
        "CompositeToolSource",
        "InMemoryApprovals",
        "Introspection",
        "PromptValidationError",
        "Redaction",
        "ResourceRegistry",
        "StaticToolSource",
        "Tool",
        "ToolCatalog",
        "ToolContext",
        "ToolEffect",
        "ToolErrorCode",
        "ToolExample",
        "ToolExecResult",
        "ToolInvocationRecord",
        "ToolPolicy",
        "ToolPolicyContext",
        "ToolResult",
        "ToolRunner",
        "ToolSource",
        "ToolSpec",
        "ToolUserError",
        "ToolValidationError",
        "Workspaces",
        "tool",
    ),
    "demiurge.values": ("Ref",),
    "demiurge.world.host": ("Accepted",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Accepted",
    "AiEvent",
    "ApprovalDecision",
    "ApprovalRequest",
    "ApprovalStore",
    "Budgets",
    "Chat",
    "CompositeToolSource",
    "Conflict",
    "Damaged",
    "DemiurgeError",
    "Divergence",
    "InMemoryApprovals",
    "Introspection",
    "InvalidValue",
    "NotFound",
    "PromptValidationError",
    "Redaction",
    "Ref",
    "Reply",
    "ResourceRegistry",
    "StaticToolSource",
    "Tool",
    "ToolCallView",
    "ToolCatalog",
    "ToolContext",
    "ToolEffect",
    "ToolErrorCode",
    "ToolExample",
    "ToolExecResult",
    "ToolInvocationRecord",
    "ToolPolicy",
    "ToolPolicyContext",
    "ToolResult",
    "ToolRunner",
    "ToolSource",
    "ToolSpec",
    "ToolUserError",
    "ToolValidationError",
    "Unavailable",
    "UsageError",
    "Workspaces",
    "World",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'demiurge' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
