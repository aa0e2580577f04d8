"""Tools: what they are, who may call them, and the one path on which they run.

A `Tool` is compiled into a `ToolSpec`, data that a model can be shown; a `ToolPolicy`, data too, decides
which of them may run; a `ToolCatalog` is what is left for a model to see; a `ToolRunner` passes each call
through the same stages and answers it once. This package is the semantic core: it knows no provider's
format, no network, no database and no environment. It imports `demiurge.values` and `demiurge.errors`, and
pydantic for typed parameters.
"""

from __future__ import annotations

from demiurge.tools.approvals import ApprovalDecision, ApprovalRequest, ApprovalStore, InMemoryApprovals
from demiurge.tools.bound import BoundTool
from demiurge.tools.capabilities import (
    Clock,
    Introspection,
    WorkspaceCommit,
    WorkspaceEntry,
    WorkspaceFile,
    Workspaces,
)
from demiurge.tools.catalog import ToolCatalog
from demiurge.tools.context import ResourceRegistry, ToolContext
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import (
    SAFE_MESSAGES,
    LoopSignal,
    PromptValidationError,
    ToolErrorCode,
    ToolFailure,
    ToolUserError,
    ToolValidationError,
)
from demiurge.tools.events import (
    AiEvent,
    AssistantFinal,
    Done,
    ErrorEvent,
    Status,
    TextDelta,
    ToolCallResult,
    ToolCallStart,
    UsageReport,
    event_to_json,
)
from demiurge.tools.ids import canonical_id
from demiurge.tools.policy import Budgets, Decision, ToolPolicy, ToolPolicyContext
from demiurge.tools.record import ToolExecResult, ToolInvocationRecord
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolRenderableResult, ToolResult
from demiurge.tools.runner import ToolRunner
from demiurge.tools.schema import compile_schema, validate_tool_schema_p0
from demiurge.tools.source import CompositeToolSource, StaticToolSource, ToolSource
from demiurge.tools.spec import ToolSpec
from demiurge.tools.tool import Tool, ToolExample, tool

__all__ = [
    "CORE_TOOLS",
    "SAFE_MESSAGES",
    "AiEvent",
    "ApprovalDecision",
    "ApprovalRequest",
    "ApprovalStore",
    "AssistantFinal",
    "BoundTool",
    "Budgets",
    "Clock",
    "CompositeToolSource",
    "Decision",
    "Done",
    "ErrorEvent",
    "InMemoryApprovals",
    "Introspection",
    "LoopSignal",
    "PromptValidationError",
    "Redaction",
    "ResourceRegistry",
    "StaticToolSource",
    "Status",
    "TextDelta",
    "Tool",
    "ToolCallResult",
    "ToolCallStart",
    "ToolCatalog",
    "ToolContext",
    "ToolEffect",
    "ToolErrorCode",
    "ToolExample",
    "ToolExecResult",
    "ToolFailure",
    "ToolInvocationRecord",
    "ToolPolicy",
    "ToolPolicyContext",
    "ToolRenderableResult",
    "ToolResult",
    "ToolRunner",
    "ToolSource",
    "ToolSpec",
    "ToolUserError",
    "ToolValidationError",
    "UsageReport",
    "WorkspaceCommit",
    "WorkspaceEntry",
    "WorkspaceFile",
    "Workspaces",
    "canonical_id",
    "compile_schema",
    "event_to_json",
    "tool",
    "validate_tool_schema_p0",
]
