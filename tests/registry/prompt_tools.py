"""Prompt tools that tests begin with, and hypothesis strategies for any prompt tool."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.registry.proposals import proposal_of

from demiurge.registry.core_ids import core_id_of
from demiurge.registry.prompt_tool import ARCHETYPES, FIELDS, SCOPES, PromptTool, read_prompt_tool, tool_problems

__all__ = ["prompt_tools", "tool_of"]


def tool_of(**changed: Any) -> PromptTool:
    """Returns a sound tool with some fields changed."""
    sound = proposal_of()
    return read_prompt_tool({**{name: sound[name] for name in FIELDS}, **changed})


def prompt_tools() -> st.SearchStrategy[PromptTool]:
    """Returns a strategy for any prompt tool that is not a core tool, whatever characters its texts have."""
    line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=60)
    text = st.lists(line | st.sampled_from(["", "a b c", "a b d", "\u202eback", "wide \u4e16\u754c"]), max_size=12)
    joined = text.map("\n".join)
    records = st.fixed_dictionaries(
        {
            "id": st.from_regex(r"[a-z][a-z0-9_]{2,20}", fullmatch=True),
            "name": line,
            "archetype": st.sampled_from(ARCHETYPES),
            "scope": st.sampled_from(SCOPES),
            "usageNotes": line,
            "goals": joined,
            "guardrails": joined,
            "prompt": joined,
        }
    )
    sound = records.filter(lambda given: not tool_problems(given) and core_id_of(given["id"]) is None)
    return sound.map(read_prompt_tool)
