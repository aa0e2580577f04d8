"""The proposal that a changed entry of a layer file becomes.

Nobody wrote a reason or test cases into the file, so the proposal says that, and a person has to look at both cases
before it can be approved.
"""

from __future__ import annotations

from typing import Final

from demiurge.registry.layers import LayerChange
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import TestCase, ToolProposal
from demiurge.values import canonical_json
from demiurge.values.refs import ref_digest, ref_of

__all__ = ["layer_proposal", "layer_proposal_id"]

_SAYS: Final = {
    "new": "has this tool, and this world has no such tool in that layer",
    "modify": "has another text of this tool than the live one",
    "delete": "no longer has this tool",
}


def layer_proposal(layer: str, change: LayerChange, live: PromptTool | None) -> ToolProposal:
    """Returns the proposal of a change of the layer file `user` or `project`. `live` is the tool to delete."""
    tool = change.tool or live
    if tool is None:
        raise ValueError("The tool to delete is needed.")
    rationale = (
        f"The layer file of the {layer} {_SAYS[change.kind]}. The proposal was made from the file, which gives no "
        "reason: ask whoever edited it before you approve it."
    )
    examples = (
        {"input": f"A request for which the tool is meant. {tool.usage_notes}"[:2000], "expected": _FITS[change.kind]},
        {"input": "A request that has nothing to do with the tool.", "expected": "The reply does not use the tool."},
    )
    cases = (
        TestCase("fits", "pass", check=f"Send a request for which the tool is meant. {_FITS[change.kind]}"),
        TestCase("does_not_fit", "fail", check=f"Look for a reply that is wrong. {_WRONG[change.kind]}"),
    )
    return ToolProposal(tool, change.kind, rationale, examples, cases, layer, change.base)


_FITS: Final = {
    **dict.fromkeys(("new", "modify"), "The reply does what the tool's prompt says, and keeps to its guardrails."),
    "delete": "The reply is as good without the tool.",
}
_WRONG: Final = {
    **dict.fromkeys(("new", "modify"), "Such a reply breaks a guardrail, or uses the tool where nobody asked for it."),
    "delete": "Such a reply names the tool although it is gone.",
}


def layer_proposal_id(layer: str, change: LayerChange, approvals: int, taken: int = 0) -> str:
    """Returns the id of the proposal: the same for the same change, so that it is proposed once, however often the file
    is read. `approvals`: how many versions of the tool were approved in this layer before; `taken`: how many of the ids
    before this one belong to proposals of others."""
    digest = None if change.tool is None else change.tool.digest
    what = [layer, change.kind, change.id, digest, change.base, approvals, *([taken] if taken else ())]
    return f"f{ref_digest(ref_of(canonical_json.encode(what))).hex()[:16]}"
