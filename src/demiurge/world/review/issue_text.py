"""The words of the issues about a proposal, as Markdown.

A proposal is untrusted text, so its fields stand in fenced blocks that they can not close."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from demiurge.registry.prompt_tool import FIELDS
from demiurge.registry.proposal import TestCase, ToolProposal
from demiurge.values import canonical_json

__all__ = ["proposal_text", "review_text"]

_QUESTIONS: Final = (
    ("sensible", "Does it make sense?"),
    ("overlaps", "Does it overlap core tools?"),
    ("violates", "Does it violate guardrails or the tool policy?"),
    ("changes", "What has to change?"),
)


def proposal_text(proposal: ToolProposal, proposal_id: str, revision: int, by: str) -> str:
    """Returns the body of the issue that asks for a review: the proposal, its rationale and its test cases."""
    tool = proposal.tool.to_json()
    lines = [
        f"Proposal {proposal_id}, revision {revision}, by {by}: {proposal.kind} `{proposal.tool.id}` "
        f"for the {proposal.target} layer.",
        f"Digest: {proposal.digest}",
        "",
        "## Rationale",
        *_fenced(proposal.rationale),
        "## Tool",
    ]
    for name in FIELDS:
        lines += [f"### {name}", *_fenced(tool[name])] if tool[name] else []
    lines.append("## Examples")
    for example in proposal.examples:
        lines += ["Input:", *_fenced(example["input"]), "Expected:", *_fenced(example["expected"])]
    lines.append("## Test cases")
    for case in proposal.test_cases:
        lines += _case(case)
    return "\n".join(lines)


def review_text(review: Mapping[str, Any]) -> str:
    """Returns a review as a comment and as the head of the issue for the user."""
    if review["kind"] == "user":
        said = f"This world has no Chief of Staff, so {review['by']} acts as both Chief and user."
        return "\n".join([said, "", *_fenced(review["notes"])])
    who = f"the model {review['model']}" if review["model"] else review["by"]
    lines = [f"Assessment of the Chief of Staff ({who}): **{review['recommend']}**", ""]
    for name, question in _QUESTIONS:
        lines += [f"### {question}", *_fenced(review[name])]
    return "\n".join([*lines, *(["### Notes", *_fenced(review["notes"])] if review["notes"] else [])])


def _case(case: TestCase) -> list[str]:
    lines = [f"### {case.id}: should {case.should} ({case.kind})"]
    if case.is_manual:
        return [*lines, "A person looks at:", *_fenced(case.check or "")]
    expected = canonical_json.encode(case.expect or {}).decode()
    return [*lines, "Reply:", *_fenced(case.reply or ""), "Expected:", *_fenced(expected)]


def _fenced(text: str) -> list[str]:
    """Returns a text in a block whose fence is longer than any run of backticks in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", text, fence, ""]
