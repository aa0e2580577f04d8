"""Spellings of the core tools and their arguments that a model may write in the JSON tool protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.pack.spellings import argument_spellings, pack_tool_id
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.wire.tool_envelope import EnvelopeCall, EnvelopeTools, read_call

TOOLS = EnvelopeTools.of([tool.bound.spec for tool in PACK_TOOLS], pack_tool_id, argument_spellings())


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("File-Locator", {"query": "x"}, EnvelopeCall("core__file_locator", {"search_criteria": "x"})),
        ("read_file", {"path": "a.md"}, EnvelopeCall("core__file_reader", {"file_path": "a.md"})),
        (
            "core__file_reader",
            {"startLine": 2, "file": "a"},
            EnvelopeCall("core__file_reader", {"start_line": 2, "file_path": "a"}),
        ),
        ("stakes_map", {"scenePaths": ["a"]}, EnvelopeCall("core__stakes_mapper", {"scene_paths": ["a"]})),
        ("line_edit", {"max_edits": 3}, EnvelopeCall("core__line_editor", {"max_edits": 3})),
    ],
)
def test_another_spelling_stands_for_the_tool(name: str, args: dict[str, Any], expected: EnvelopeCall) -> None:
    assert read_call(json.dumps({"tool": name, "args": args, "nonce": "N"}), TOOLS, "N") == expected


def test_each_core_tool_has_a_callable() -> None:
    assert [pack_tool_id(core_id) for core_id in CORE_IDS] == [tool.name for tool in PACK_TOOLS]
    assert pack_tool_id("my_own_tool") is None


def test_a_spelling_names_an_argument_of_its_tool() -> None:
    for tool in PACK_TOOLS:
        named = set(tool.bound.spec.input_schema["properties"])
        assert set(argument_spellings()[tool.name].values()) <= named
