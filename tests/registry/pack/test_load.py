"""The shipped records of the core tools: complete, in form, and refused after any change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from demiurge.errors import Damaged
from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.pack import load
from demiurge.registry.pack.story import story
from demiurge.registry.prompt_tool import read_prompt_tool
from demiurge.registry.proposal import TestCase, ToolProposal
from demiurge.registry.static_checks import static_findings


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    load.core_tools.cache_clear()
    yield
    load.core_tools.cache_clear()


def test_the_pack_has_all_core_tools_in_order() -> None:
    assert tuple(tool.id for tool in load.core_tools()) == CORE_IDS
    assert load.core_tool("line_editor").name == "Line Editor"


def test_each_record_is_in_form_and_complete() -> None:
    for tool in load.core_tools():
        assert read_prompt_tool(tool.to_json()) == tool
        assert all(tool.to_json().values())
        assert f"Call {tool.id}" in tool.prompt


def test_a_copy_of_a_core_tool_can_be_proposed() -> None:
    cases = (TestCase("a", "pass", check="It looks right."), TestCase("b", "fail", check="It looks wrong."))
    examples = ({"input": "a", "expected": "b"}, {"input": "c", "expected": "d"})
    for tool in load.core_tools():
        copy = replace(tool, id=f"{tool.id}_custom", name=f"{tool.name} (ours)")
        proposal = ToolProposal(copy, "new", "A copy of a core tool for our own conventions.", examples, cases)
        assert static_findings(proposal, load.core_tools()) == []


def test_the_digests_are_those_of_the_shipped_files() -> None:
    assert json.loads(load._bytes("digests.json")) == load.pack_digests(), (
        "A record or a constant was changed on purpose? Write the value of pack_digests() to digests.json."
    )


@pytest.mark.parametrize("name", ["tools.json", "digests.json"])
def test_a_changed_pack_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = load._bytes

    def changed(asked: str) -> bytes:
        data = real(asked)
        if asked != name:
            return data
        return (
            data.replace(b"Line Editor", b"Line Writer") if name == "tools.json" else data.replace(b"data/words", b"d")
        )

    monkeypatch.setattr(load, "_bytes", changed)
    with pytest.raises(Damaged) as refused:
        load.core_tools()
    assert refused.value.code == "core_pack_damaged"
    assert ("tools/line_editor" if name == "tools.json" else "data/words.json") in refused.value.message


def test_a_changed_rule_of_evidence_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = load.pack_digests()
    monkeypatch.setattr(load, "pack_digests", lambda: {**found, "data/evidence.json": found["data/words.json"]})
    story.cache_clear()
    with pytest.raises(Damaged, match=re.escape("data/evidence.json")) as refused:
        story("evidence")
    assert refused.value.code == "core_pack_damaged"
