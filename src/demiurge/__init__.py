"""Demiurge: a durable, governed tool runtime for LLM agents.

Every tool call that a model proposes is decided by policy (and by a person, where the policy says so), performed once,
and recorded so that it can be replayed and audited. Use `ToolRunner` inside a loop of your own, or open a `World`: a
durable agent in one directory.

Names are imported when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demiurge.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from demiurge.agents import AgentLoop
    from demiurge.bootstrap import Chat, Reply, World
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
    from demiurge.prompts import (
        MarkdownSection,
        Prompt,
        PromptEvaluationError,
        PromptTemplate,
        RenderedPrompt,
        Section,
        ToolExecutionContext,
        ToolExecutor,
        VisibilityExpansionRequired,
    )
    from demiurge.prompts.planning import (
        AddStep,
        Plan,
        PlanningStrategy,
        PlanningToolsSection,
        PlanStep,
        ReadPlan,
        SetupPlan,
        UpdateStep,
    )
    from demiurge.sessions import Session
    from demiurge.stores.connection_store import MemoryConnectionStore
    from demiurge.stores.sqlite.connection_store import SqliteConnectionStore
    from demiurge.stores.sqlite.ledger import SqliteEffectLedger
    from demiurge.tools import (
        AiEvent,
        AuthCapability,
        Budget,
        Budgets,
        BudgetTracker,
        ConnectionBroker,
        Deadline,
        DeadlineExceededError,
        EffectLedger,
        IdempotencyConfig,
        InMemoryApprovals,
        PromptValidationError,
        Redaction,
        ResourceRegistry,
        Tool,
        ToolCatalog,
        ToolContext,
        ToolEffect,
        ToolErrorCode,
        ToolExample,
        ToolExecResult,
        ToolInvocationRecord,
        ToolInvoked,
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
    from demiurge.world.reducer import EffectRequest, Step

_HOMES = {
    "demiurge.agents": ("AgentLoop",),
    "demiurge.bootstrap": ("Chat", "Reply", "World"),
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
    "demiurge.prompts": (
        "MarkdownSection",
        "Prompt",
        "PromptEvaluationError",
        "PromptTemplate",
        "RenderedPrompt",
        "Section",
        "ToolExecutionContext",
        "ToolExecutor",
        "VisibilityExpansionRequired",
    ),
    "demiurge.prompts.planning": (
        "AddStep",
        "Plan",
        "PlanStep",
        "PlanningStrategy",
        "PlanningToolsSection",
        "ReadPlan",
        "SetupPlan",
        "UpdateStep",
    ),
    "demiurge.sessions": ("Session",),
    "demiurge.stores.connection_store": ("MemoryConnectionStore",),
    "demiurge.stores.sqlite.connection_store": ("SqliteConnectionStore",),
    "demiurge.stores.sqlite.ledger": ("SqliteEffectLedger",),
    "demiurge.tools": (
        "AiEvent",
        "AuthCapability",
        "Budget",
        "BudgetTracker",
        "Budgets",
        "ConnectionBroker",
        "Deadline",
        "DeadlineExceededError",
        "EffectLedger",
        "IdempotencyConfig",
        "InMemoryApprovals",
        "PromptValidationError",
        "Redaction",
        "ResourceRegistry",
        "Tool",
        "ToolCatalog",
        "ToolContext",
        "ToolEffect",
        "ToolErrorCode",
        "ToolExample",
        "ToolExecResult",
        "ToolInvocationRecord",
        "ToolInvoked",
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
    "demiurge.world.host.host": ("Accepted",),
    "demiurge.world.reducer": ("EffectRequest", "Step"),
}

__all__ = [
    "Accepted",
    "AddStep",
    "AgentLoop",
    "AiEvent",
    "AuthCapability",
    "Budget",
    "BudgetTracker",
    "Budgets",
    "Chat",
    "Conflict",
    "ConnectionBroker",
    "Damaged",
    "Deadline",
    "DeadlineExceededError",
    "DemiurgeError",
    "Divergence",
    "EffectLedger",
    "EffectRequest",
    "IdempotencyConfig",
    "InMemoryApprovals",
    "InvalidValue",
    "MarkdownSection",
    "MemoryConnectionStore",
    "NotFound",
    "Plan",
    "PlanStep",
    "PlanningStrategy",
    "PlanningToolsSection",
    "Prompt",
    "PromptEvaluationError",
    "PromptTemplate",
    "PromptValidationError",
    "ReadPlan",
    "Redaction",
    "Ref",
    "RenderedPrompt",
    "Reply",
    "ResourceRegistry",
    "Section",
    "Session",
    "SetupPlan",
    "SqliteConnectionStore",
    "SqliteEffectLedger",
    "Step",
    "Tool",
    "ToolCatalog",
    "ToolContext",
    "ToolEffect",
    "ToolErrorCode",
    "ToolExample",
    "ToolExecResult",
    "ToolExecutionContext",
    "ToolExecutor",
    "ToolInvocationRecord",
    "ToolInvoked",
    "ToolPolicy",
    "ToolPolicyContext",
    "ToolResult",
    "ToolRunner",
    "ToolSource",
    "ToolSpec",
    "ToolUserError",
    "ToolValidationError",
    "Unavailable",
    "UpdateStep",
    "UsageError",
    "VisibilityExpansionRequired",
    "Workspaces",
    "World",
    "tool",
]


__getattr__ = lazy_attributes(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
