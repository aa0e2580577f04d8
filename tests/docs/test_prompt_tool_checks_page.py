"""The pages on the checks of prompt tools and on evidence: their tables are those of the program."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
from tests.registry.proposals import proposal_of

from demiurge.registry import case_checks, claims, static_checks
from demiurge.registry.platform_checks import PLATFORM_CHECKS
from demiurge.registry.proposal import read_proposal

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "prompt-tool-checks.md").read_text("utf-8")
EVIDENCE = (DOCS / "evidence.md").read_text("utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (block|warn) \| `(.*)` \|$", PAGE, re.MULTILINE)
WHOLE = re.findall(r"^\| `(\w+)` \| (?:block|warn) \| [^`].* \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("code", "severity", "example"), ROWS)
def test_an_example_of_a_code_is_found(code: str, severity: str, example: str) -> None:
    text = example.replace("\\u200b", "\u200b")
    found = static_checks.static_findings(read_proposal(proposal_of(prompt=text)), [])
    assert (code, severity) in {(one.code, one.severity) for one in found}


def test_the_page_has_each_code_of_the_static_checks() -> None:
    data = json.loads(resources.files("demiurge.registry").joinpath("data/blocked.json").read_text("utf-8"))
    blocked = {(one["code"], one["severity"]) for one in (*data["groups"], *data["patterns"])}
    source = Path(static_checks.__file__).read_text("utf-8")
    others = set(re.findall(r'(?:Finding\(|_finding\(text, )"(\w+)"', source))
    assert blocked <= {(code, severity) for code, severity, _ in ROWS}
    assert {code for code, _, _ in ROWS} | set(WHOLE) == {code for code, _ in blocked} | others


def test_the_page_has_each_platform_check() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([A-Z].*\.) \|$", PAGE, re.MULTILINE)
    assert rows == [(name, says) for name, says, _ in PLATFORM_CHECKS]


def test_the_page_has_each_expectation_and_each_code_of_a_claim() -> None:
    expectations = set(re.findall(r"^\| `(\w+): [^`]+` \|", PAGE, re.MULTILINE))
    assert expectations == set(case_checks.EXPECTATIONS)
    listed = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE + EVIDENCE, re.MULTILINE)
    assert set(get_args(claims.ClaimCode)) <= {code for row in listed for code in re.findall(r"\w+", row)}
