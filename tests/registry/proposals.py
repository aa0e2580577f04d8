"""Proposals that tests begin with."""

from __future__ import annotations

from typing import Any

__all__ = ["proposal_of"]


def proposal_of(**changed: Any) -> dict[str, Any]:
    """Returns a sound proposal of a new tool, as a file holds it, with some fields changed. None leaves a field out."""
    given: dict[str, Any] = {
        "id": "scene_pacer",
        "name": "Scene pacer",
        "archetype": "Editor",
        "scope": "file",
        "usageNotes": "When a scene feels slow or rushed.",
        "goals": "Name the paragraphs that set the pace.",
        "guardrails": "Quote the text for every claim.",
        "prompt": "Read the scene. Name up to three paragraphs that slow it down, each with a quote.",
        "proposalType": "new",
        "rationale": "Editors ask for the pace of a scene several times a week.",
        "examples": [
            {"input": "Is the second scene slow?", "expected": "Up to three paragraphs, each with a quote."},
            {"input": "Check the pace of the draft.", "expected": "A short list, or a sentence that the pace holds."},
        ],
        "testCases": [
            {
                "id": "quotes",
                "should": "pass",
                "kind": "example",
                "reply": 'The second paragraph is slow: "She waited."',
                "expect": {"must_match": ['"[^"]+"']},
            },
            {
                "id": "no_quotes",
                "should": "fail",
                "kind": "example",
                "reply": "The second paragraph is slow.",
                "expect": {"must_match": ['"[^"]+"']},
            },
        ],
        "target": "user",
        **changed,
    }
    return {name: value for name, value in given.items() if value is not None}
