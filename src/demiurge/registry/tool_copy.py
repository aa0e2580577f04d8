"""`copy_of`: the proposal of a copy of a prompt tool."""

from __future__ import annotations

from typing import Any

from demiurge.registry.prompt_tool import PromptTool

__all__ = ["copy_of"]


def copy_of(tool: PromptTool, new_id: str, rationale: str, target: str) -> dict[str, Any]:
    """Returns the proposal, as a file holds it, of a tool with the text of `tool` and the id `new_id`. Its examples and
    test cases say what every copy has to do; a person looks at each."""
    asked = f"Use {new_id}. {tool.usage_notes}"
    return {
        **tool.to_json(),
        "id": new_id,
        "name": new_id.replace("_", " ").strip().capitalize(),
        "proposalType": "new",
        "rationale": rationale,
        "examples": [
            {"input": asked, "expected": f"An answer as {tool.id} gives it."},
            {"input": f"What does {new_id} do?", "expected": f"It says that it is a copy of {tool.id}, and for what."},
        ],
        "testCases": [
            {"id": "as_its_origin", "should": "pass", "check": f"An answer by it is as good as one by {tool.id}."},
            {"id": "other_tool", "should": "fail", "check": f"An answer by it says that {tool.id} gave it."},
        ],
        "target": target,
    }
