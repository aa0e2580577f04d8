"""Tools: their types, the policy that decides who may call them, and the one path on which they run.

A `Tool` is compiled into a `ToolSpec`, which is data for a model. A `ToolPolicy`, also data, decides which tools may
run. A `ToolCatalog` holds the tools that a model may see under that policy. A `ToolRunner` passes each call through
the same stages and answers it once. This package is the semantic core: it knows no provider's format, no network, no
database and no environment. It imports `demiurge.values` and `demiurge.errors`, and pydantic for typed parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demiurge.lazy_imports import lazy_attributes
from demiurge.tools.approvals import (
    ApprovalDecision,
    ApprovalPending,
    ApprovalRequest,
    ApprovalStore,
    InMemoryApprovals,
)
from demiurge.tools.authoring.schema import compile_schema, validate_tool_schema_p0
from demiurge.tools.authoring.tool import Tool, ToolExample, tool
from demiurge.tools.authorization import AuthorizationRequest, Authorizer
from demiurge.tools.bound import BoundTool
from demiurge.tools.capabilities import (
    AuthCapability,
    Clock,
    Introspection,
    People,
    WorkspaceCommit,
    WorkspaceEntry,
    WorkspaceFile,
    Workspaces,
)
from demiurge.tools.connections.access import ConnectionAccess, ConnectionGrant
from demiurge.tools.context import ResourceRegistry, ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import (
    SAFE_MESSAGES,
    BudgetExceededError,
    DeadlineExceededError,
    InvalidLimit,
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
    ToolProgress,
    UsageReport,
    event_to_json,
)
from demiurge.tools.execution.error_log import ToolErrorLog
from demiurge.tools.filesystem import Filesystem
from demiurge.tools.ids import canonical_id
from demiurge.tools.invoked import RejectedToolParams, ToolInvoked
from demiurge.tools.ledger.idempotency import (
    IdempotencyConfig,
    IdempotencyStrategy,
    compute_idempotency_key,
    compute_params_hash,
)
from demiurge.tools.ledger.ledger import EffectLedger, Ledger, LedgerEntry, partition_of
from demiurge.tools.ledger.store import LedgerSlot
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.limits.budget import Budget, BudgetTracker, TokenUsage
from demiurge.tools.limits.deadline import Deadline
from demiurge.tools.parts import Audio, File, Image
from demiurge.tools.policy import Budgets, Decision, ToolPolicy, ToolPolicyContext
from demiurge.tools.policy_rule import ToolPolicyRule
from demiurge.tools.record import ToolExecResult, ToolInvocationRecord
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolRenderableResult, ToolResult
from demiurge.tools.runner import ToolRunner
from demiurge.tools.source import CompositeToolSource, StaticToolProvider, StaticToolSource, ToolProvider, ToolSource
from demiurge.tools.spec import ToolSpec
from demiurge.tools.telemetry.graph_run import GraphRun
from demiurge.tools.telemetry.run_summary import RunSummary
from demiurge.tools.telemetry.spans import SpanSink, ToolSpan

if TYPE_CHECKING:
    from demiurge.tools.catalog import ToolCatalog
    from demiurge.tools.connections.broker import ConnectionBroker
    from demiurge.tools.connections.connection import Connection, ConnectionStore, DamagedConnections, SealedConnection
    from demiurge.tools.connections.credentials import Credentials, Secret
    from demiurge.tools.connections.keyring import KeyRing
    from demiurge.tools.core import CORE_TOOLS
    from demiurge.tools.telemetry.prompt_hash import prompt_hash

__all__ = [
    "CORE_TOOLS",
    "SAFE_MESSAGES",
    "AiEvent",
    "Allowance",
    "ApprovalDecision",
    "ApprovalPending",
    "ApprovalRequest",
    "ApprovalStore",
    "AssistantFinal",
    "Audio",
    "AuthCapability",
    "AuthorizationRequest",
    "Authorizer",
    "BoundTool",
    "Budget",
    "BudgetExceededError",
    "BudgetTracker",
    "Budgets",
    "Clock",
    "CompositeToolSource",
    "Connection",
    "ConnectionAccess",
    "ConnectionBroker",
    "ConnectionGrant",
    "ConnectionStore",
    "Credentials",
    "DamagedConnections",
    "Deadline",
    "DeadlineExceededError",
    "Decision",
    "Done",
    "EffectLedger",
    "ErrorEvent",
    "File",
    "Filesystem",
    "GraphRun",
    "IdempotencyConfig",
    "IdempotencyStrategy",
    "Image",
    "InMemoryApprovals",
    "Introspection",
    "InvalidLimit",
    "KeyRing",
    "Ledger",
    "LedgerEntry",
    "LedgerSlot",
    "LoopSignal",
    "People",
    "PromptValidationError",
    "Redaction",
    "RejectedToolParams",
    "ResourceRegistry",
    "RunSummary",
    "SealedConnection",
    "Secret",
    "SpanSink",
    "StaticToolProvider",
    "StaticToolSource",
    "Status",
    "TextDelta",
    "TokenUsage",
    "Tool",
    "ToolCallResult",
    "ToolCallStart",
    "ToolCatalog",
    "ToolContext",
    "ToolEffect",
    "ToolErrorCode",
    "ToolErrorLog",
    "ToolExample",
    "ToolExecResult",
    "ToolFailure",
    "ToolInvocationRecord",
    "ToolInvoked",
    "ToolPolicy",
    "ToolPolicyContext",
    "ToolPolicyRule",
    "ToolProgress",
    "ToolProvider",
    "ToolRenderableResult",
    "ToolResult",
    "ToolRunner",
    "ToolSource",
    "ToolSpan",
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
    "compute_idempotency_key",
    "compute_params_hash",
    "event_to_json",
    "partition_of",
    "prompt_hash",
    "tool",
    "validate_tool_schema_p0",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "demiurge.tools.catalog": ("ToolCatalog",),
        "demiurge.tools.connections.broker": ("ConnectionBroker",),
        "demiurge.tools.connections.connection": (
            "Connection",
            "ConnectionStore",
            "DamagedConnections",
            "SealedConnection",
        ),
        "demiurge.tools.connections.credentials": ("Credentials", "Secret"),
        "demiurge.tools.connections.keyring": ("KeyRing",),
        "demiurge.tools.core": ("CORE_TOOLS",),
        "demiurge.tools.telemetry.prompt_hash": ("prompt_hash",),
    },
)
