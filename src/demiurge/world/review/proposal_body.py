"""The body of a proposal in its unit: how it is read, which ids it may have, and what of it is published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.registry.core_ids import normal_id
from demiurge.registry.proposal import ToolProposal, read_proposal
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.reducer import ReducerContext

__all__ = ["publication", "read_body", "require_own_id"]


def read_body(body_ref: Ref, context: ReducerContext) -> ToolProposal:
    """Returns the proposal in a blob, which must be in the form that its digest covers. Raises DemiurgeError."""
    proposal = read_proposal(canonical_json.parse_object(context.blob(body_ref)))
    if proposal.digest != body_ref:
        raise InvalidValue("The proposal is not in its canonical form.", code="invalid_proposal")
    return proposal


def require_own_id(proposal: ToolProposal, context: ReducerContext) -> None:
    """Raises InvalidValue (`id_is_callable`) if a tool that can be called in this world has the id: a model that read
    of both would take one for the other."""
    if proposal.kind == "delete":
        return
    form = normal_id(proposal.tool.id)
    called = next((name for name in context.toolset if normal_id(name) == form), None)
    if called is not None:
        raise InvalidValue(
            f"{called} is a tool that can be called in this world: choose another id than {proposal.tool.id} for the "
            "prompt tool.",
            code="id_is_callable",
        )


def publication(
    proposal_id: str, state: Mapping[str, Any], proposal: ToolProposal, decision: Mapping[str, Any], snapshot: Ref
) -> dict[str, Any]:
    """Returns what the registry is told of an approved proposal."""
    return {
        "registry": "main",
        "proposal": proposal_id,
        "revision": state["revision"],
        "kind": proposal.kind,
        "layer": proposal.target,
        "tool": proposal.tool.id,
        "base": proposal.base,
        "digest": proposal.tool.digest,
        "snapshot": snapshot,
        "by": decision["by"],
        "proposal_digest": state["body_ref"],
    }
