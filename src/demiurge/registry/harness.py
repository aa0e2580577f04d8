"""The harness: everything that is checked about a proposal without a model and before a person approves it.

A report is bound to the digest of its proposal. The same proposal, catalog and tools give the same report: nothing here
reads a clock, a file of the user or a random number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from demiurge.registry.case_checks import broken_expectations
from demiurge.registry.findings import Finding
from demiurge.registry.platform_checks import PlatformResult, platform_results
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import TestCase, ToolProposal
from demiurge.registry.proposal_texts import texts_of
from demiurge.registry.static_checks import catalog_with, static_findings
from demiurge.values.refs import Ref

__all__ = ["CaseResult", "HarnessReport", "run_harness"]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The outcome of a test case. `right`: the reply does what the case says it should; None for a manual case, whose
    verdict a person records. `broken`: the expectations that the reply does not meet."""

    id: str
    should: str
    right: bool | None
    broken: tuple[str, ...] = ()

    @property
    def is_manual(self) -> bool:
        return self.right is None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"manual": self.is_manual, "broken": list(self.broken)}


@dataclass(frozen=True, slots=True)
class HarnessReport:
    """The outcome of all checks of the proposal with this digest."""

    digest: Ref
    static: tuple[Finding, ...]
    platform: tuple[PlatformResult, ...]
    cases: tuple[CaseResult, ...]

    @property
    def passed(self) -> bool:
        """True without a blocking finding, with all platform checks passed and all automatic cases right."""
        return (
            all(finding.severity != "block" for finding in self.static)
            and all(result.passed for result in self.platform)
            and all(case.right is not False for case in self.cases)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "digest": self.digest,
            "passed": self.passed,
            "static": [finding.to_json() for finding in self.static],
            "platform": [result.to_json() for result in self.platform],
            "cases": [case.to_json() for case in self.cases],
        }


def run_harness(
    proposal: ToolProposal, live: Sequence[PromptTool], callable_names: Collection[str] = ()
) -> HarnessReport:
    """Returns the report about a proposal. `live`: the tools of the catalog now, core tools too; `callable_names`: the
    tools of the world that a model can call, besides those that ship with Demiurge."""
    texts = [found.text for found in texts_of(proposal) if found.case is None]
    return HarnessReport(
        proposal.digest,
        tuple(static_findings(proposal, live, callable_names)),
        platform_results(proposal, live, catalog_with(proposal, live), texts),
        tuple(_case_result(case, callable_names, proposal.tool.archetype) for case in proposal.test_cases),
    )


def _case_result(case: TestCase, callable_names: Collection[str], role: str) -> CaseResult:
    if case.is_manual:
        return CaseResult(case.id, case.should, None)
    broken = broken_expectations(case, callable_names, role)
    return CaseResult(case.id, case.should, bool(broken) == (case.should == "fail"), broken)
