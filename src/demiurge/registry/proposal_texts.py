"""The texts of a proposal, and what each is used for.

Only the eight fields of the tool are put into a prompt. What a test case is *given* stands for a file or a message from
elsewhere, so it may hold an attack that the tool has to withstand, and a reply that should fail is there because it is
bad. In those two, and in the fields of a tool that is to be deleted, a finding is a warning and blocks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from demiurge.registry.prompt_tool import FIELDS
from demiurge.registry.proposal import TestCase, ToolProposal

__all__ = ["ProposalText", "texts_of"]


@dataclass(frozen=True, slots=True)
class ProposalText:
    """One text of a proposal. `blocks`: a finding in it may block the proposal. `case`: the test case
    whose reply it is; a reply may hold words of the tool protocol that its case expects."""

    field: str
    text: str
    blocks: bool = True
    case: TestCase | None = None


def texts_of(proposal: ToolProposal) -> Iterator[ProposalText]:
    """Returns the texts of a proposal by the paths of their fields. Empty texts are left out."""
    return (found for found in _texts_of(proposal) if found.text)


def _texts_of(proposal: ToolProposal) -> Iterator[ProposalText]:
    record = proposal.tool.to_json()
    yield from (ProposalText(field, record[field], blocks=proposal.kind != "delete") for field in FIELDS)
    yield ProposalText("rationale", proposal.rationale)
    for at, example in enumerate(proposal.examples):
        yield from (ProposalText(f"examples[{at}].{name}", text) for name, text in example.items())
    for at, case in enumerate(proposal.test_cases):
        yield from _case_texts(case, f"testCases[{at}]")


def _case_texts(case: TestCase, path: str) -> Iterator[ProposalText]:
    blocks = case.should == "pass"
    yield ProposalText(f"{path}.id", case.id)
    yield ProposalText(f"{path}.reply", case.reply or "", blocks, case)
    yield ProposalText(f"{path}.check", case.check or "", blocks)
    for name, value in (case.expect or {}).items():
        yield from _nested(value, f"{path}.expect.{name}")
    for name, value in (case.given or {}).items():
        yield from _nested(value, f"{path}.given.{name}")


def _nested(value: Any, path: str) -> Iterator[ProposalText]:
    """Returns the texts in a JSON value, names of fields among them, by their paths."""
    if isinstance(value, str):
        yield ProposalText(path, value, blocks=False)
    elif isinstance(value, dict):
        for name, child in value.items():
            yield ProposalText(path, name, blocks=False)
            yield from _nested(child, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for at, child in enumerate(value):
            yield from _nested(child, f"{path}[{at}]")
