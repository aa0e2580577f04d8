"""`snapshot_of`: the document that the history keeps of an approved version of a prompt tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.registry.proposal import ToolProposal
from demiurge.values import canonical_json
from demiurge.world.reducer import ReducerContext

__all__ = ["snapshot_of"]


def snapshot_of(
    state: Mapping[str, Any], proposal: ToolProposal, decision: Mapping[str, Any], context: ReducerContext
) -> bytes:
    """Returns the document that the history keeps of an approved version."""
    review, checks = state["review"], state["checks"]
    document = {
        "tool": None if proposal.kind == "delete" else proposal.tool.to_json(),
        "digest": proposal.tool.digest,
        "kind": proposal.kind,
        "layer": proposal.target,
        "parent": proposal.base,
        "proposal": context.key,
        "proposalDigest": state["body_ref"],
        "revision": state["revision"],
        "proposedBy": state["submitted_by"],
        "approvedBy": decision["by"],
        "approvedAt": decision["at"] // 1_000_000,
        "reason": decision["reason"],
        "read": decision["read"],
        "review": {name: review[name] for name in review if name not in ("digest", "at")},
        "report": checks["report_ref"],
        "verdicts": [
            {name: verdict[name] for name in ("case", "passed", "note", "by")}
            for verdict in state["verdicts"]
            if verdict["digest"] == state["body_ref"]
        ],
    }
    return canonical_json.encode(document)
