"""The `sys/*` definitions, which every world has and no manifest may redefine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from demiurge.world.effect_kinds import tables

__all__ = [
    "ANY_RECEIPT",
    "DOUBT_SETTLED",
    "NOT_FROM_PLANS",
    "RESERVED",
    "SYSTEM_ROUTES",
    "receipt_schema",
    "system_definitions",
]

RESERVED = "sys/"

SYSTEM_ROUTES: tuple[Mapping[str, str], ...] = tuple(
    MappingProxyType({"event": event, "module": module, "key_field": key_field})
    for event, module, key_field in (
        ("sys/WorkspaceEvent@1", "sys/Workspace@1", "$value.workspace"),
        ("sys/ConnectionEvent@1", "sys/Connection@1", "$value.connection_id"),
        ("sys/ConnectionChoose@1", "sys/ConnectionChoice@1", "unit"),
        ("sys/WebhookEvent@1", "sys/Webhook@1", "$value.webhook_id"),
        ("sys/McpServerEvent@1", "sys/McpServer@1", "$value.server"),
        ("sys/ToolProposalEvent@1", "sys/ToolProposal@1", "$value.proposal_id"),
        ("sys/ToolRegistryEvent@1", "sys/ToolRegistry@1", "$value.registry"),
        ("sys/IssueEvent@1", "sys/Issue@1", "$value.issue"),
        ("sys/ModelRunEvent@1", "sys/ModelRun@1", "$value.proposal_id"),
    )
)
"""The routes of the `sys/*` modules. A manifest stored before a module existed has no route to it."""

NOT_FROM_PLANS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("sys/WorkspaceEvent@1", "sys/WorkspaceCommit@1", "sys/WorkspaceEdit@1"),
            ("would pass by the grants", "ask for the effect workspace.commit"),
        ),
        **dict.fromkeys(
            ("sys/ConnectionEvent@1", "sys/ConnectionAdd@1", "sys/ConnectionRevoke@1", "sys/ConnectionChoose@1"),
            ("is taken from a user alone", "leave the step out"),
        ),
        **dict.fromkeys(
            (
                *("sys/WebhookEvent@1", "sys/WebhookAdd@1", "sys/WebhookRemove@1", "sys/WebhookRotate@1"),
                *("sys/WebhookNotify@1", "sys/WebhookWithdraw@1", "sys/WebhookDelivered@1"),
            ),
            ("is taken from a user or from the host alone", "leave the step out"),
        ),
        **dict.fromkeys(
            (
                *("sys/McpServerEvent@1", "sys/McpServerAdd@1", "sys/McpServerRemove@1"),
                *("sys/McpTrust@1", "sys/McpUntrust@1", "sys/McpListing@1"),
            ),
            ("is taken from a user or from the host alone", "leave the step out"),
        ),
        **dict.fromkeys(
            (
                "sys/ToolProposalEvent@1",
                *(f"sys/ToolProposal{tag}@1" for tag in ("Submit", "Revise", "Withdraw", "Review", "Skip", "Verdict")),
                *(f"sys/ToolProposal{tag}@1" for tag in ("Check", "Checked", "Decide", "Published", "Assess")),
                *("sys/ToolRegistryEvent@1", "sys/ToolRegistryPublish@1", "sys/ToolRegistryLayerSeen@1"),
                *("sys/IssueEvent@1", "sys/IssueOpen@1", "sys/IssueComment@1", "sys/IssueUpdate@1"),
                "sys/ModelRunAsk@1",
            ),
            ("is taken from people, from tools, and from the units of proposals", "leave the step out"),
        ),
    }
)
"""The events that no plan may raise, with why, and what to do instead."""

ANY_RECEIPT = "sys/EffectReceipt@1"
"""The event that tells a module reducer the outcome of any effect that it asked for."""

DOUBT_SETTLED = "sys/DoubtSettled@1"
"""The event that tells a module what a person found out about an effect whose outcome was unknown."""


def receipt_schema(kind: str) -> str:
    """Returns the name of the event that tells a module reducer the outcome of an effect of this `kind`. A module
    without an arm for that event gets `ANY_RECEIPT`."""
    found = tables().kinds.get(kind)
    return found.typed_receipt if found is not None and found.typed_receipt is not None else ANY_RECEIPT


def system_definitions() -> tuple[Mapping[str, Any], ...]:
    """Returns the `sys/*` definitions of every new manifest. A stored manifest keeps its own."""
    return tables().definitions
