"""Strategies change the paragraph on the mindset, and nothing else."""

import re
from string import Template

import pytest

from demiurge.prompts.planning import PlanningStrategy, planning_tools
from demiurge.prompts.planning.strategy import instructions

TEXTS = {strategy: instructions(strategy) for strategy in PlanningStrategy}


def paragraphs(strategy: PlanningStrategy) -> list[str]:
    return TEXTS[strategy].split("\n\n")


def test_only_one_paragraph_varies_and_it_stands_at_the_same_place() -> None:
    react, reflect, decompose = map(paragraphs, PlanningStrategy)
    assert len(react) == len(reflect) == len(decompose)
    varying = [place for place, texts in enumerate(zip(react, reflect, decompose, strict=True)) if len(set(texts)) > 1]
    assert len(varying) == 1
    assert len({react[varying[0]], reflect[varying[0]], decompose[varying[0]]}) == 3


@pytest.mark.parametrize("strategy", PlanningStrategy)
def test_the_text_speaks_of_every_tool_and_of_no_other(strategy: PlanningStrategy) -> None:
    assert set(re.findall(r"`(planning_\w+)`", TEXTS[strategy])) == {tool.name for tool in planning_tools()}


@pytest.mark.parametrize("strategy", PlanningStrategy)
def test_the_text_has_no_gaps_left_and_no_headings_of_its_own(strategy: PlanningStrategy) -> None:
    assert Template(TEXTS[strategy]).get_identifiers() == []
    assert not re.search(r"[{}$]|^#", TEXTS[strategy], re.MULTILINE)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (PlanningStrategy.REACT, ("think", "call a tool", "observation", "notes")),
        (PlanningStrategy.PLAN_ACT_REFLECT, ("whole plan", "one by\none", "reflection", "notes")),
        (
            PlanningStrategy.GOAL_DECOMPOSE_ROUTE_SYNTHESISE,
            ("own words", "sub-problems", "before|only when", "one answer"),
        ),
    ],
)
def test_a_mindset_says_what_the_seed_asks_of_it(strategy: PlanningStrategy, words: tuple[str, ...]) -> None:
    for word in words:
        assert re.search(word, TEXTS[strategy]), word
