"""Layer files: any bytes are read or refused as damaged, entries with problems are named, and a file only proposes."""
# ruff: noqa: RUF001

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.registry.prompt_tools import prompt_tools, tool_of

from demiurge.errors import InvalidValue
from demiurge.registry import layers
from demiurge.registry.core_ids import CORE_IDS, normal_id
from demiurge.registry.layers import (
    MAX_LAYER_BYTES,
    LayerDamaged,
    LayerFile,
    layer_changes,
    read_layer,
    write_layer,
)
from demiurge.registry.prompt_tool import FIELDS, PromptTool

RECORD = tool_of().to_json()
LAYERS = st.lists(prompt_tools(), max_size=4, unique_by=lambda tool: normal_id(tool.id))


def layer_of(*records: Any) -> bytes:
    return json.dumps({"version": 1, "prompts": list(records)}).encode()


def code_of(data: bytes) -> str | None:
    """Returns the code of the refusal of a file, None for one that is read."""
    try:
        read_layer(data)
    except LayerDamaged as error:
        return error.code
    return None


def test_a_written_layer_is_plain_json_in_a_fixed_order() -> None:
    data = write_layer([tool_of(id="zebra_check"), tool_of(id="apple_check", goals="Ein Café.")])
    assert data == write_layer([tool_of(id="apple_check", goals="Ein Café."), tool_of(id="zebra_check")])
    assert data.decode().splitlines()[:5] == [
        "{",
        '  "version": 1,',
        '  "prompts": [',
        "    {",
        '      "id": "apple_check",',
    ]
    assert "Ein Café." in data.decode()
    assert data.endswith(b"}\n")


def test_the_layer_file_of_the_docs_is_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "prompt-tool-files.md").read_text("utf-8")
    example = page.partition("```json\n")[2].partition("```")[0]
    assert read_layer(example.encode()) == LayerFile((tool_of(),))
    assert write_layer([tool_of()]).decode() == example


def test_hidden_characters_are_escaped_in_a_written_layer() -> None:
    data = write_layer([tool_of(prompt="a\u202eb\U000e0041c")])
    assert "a\\u202eb\\udb40\\udc41c" in data.decode()
    assert read_layer(data).tools[0].prompt == "a\u202eb\U000e0041c"


@given(LAYERS)
def test_any_tools_are_read_back_as_they_were_written(tools: list[PromptTool]) -> None:
    assert read_layer(write_layer(tools)) == LayerFile(tuple(sorted(tools, key=lambda tool: tool.id)))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_layer_or_damaged(data: bytes) -> None:
    assert code_of(data) in (None, "layer_damaged")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.sampled_from(CORE_IDS),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from([*FIELDS, "version", "tool"]) | st.text(), inner)
        ),
    )
)
def test_any_json_is_a_layer_or_damaged_as_a_whole_or_as_an_entry(value: Any) -> None:
    for document in (value, {"version": 1, "prompts": value}, {"version": 1, "prompts": [value, RECORD]}):
        data = json.dumps(document).encode()
        try:
            found = read_layer(data)
        except LayerDamaged:
            continue
        assert all(problem.entry.startswith("prompts[") and problem.message for problem in found.problems)
        assert read_layer(write_layer(found.tools)).problems == ()


@given(LAYERS, st.integers(min_value=0), st.binary(min_size=1, max_size=3))
def test_a_spoiled_layer_is_read_or_damaged(tools: list[PromptTool], at: int, noise: bytes) -> None:
    data = write_layer(tools)
    at %= len(data)
    for spoiled in (data[:at], data[:at] + noise + data[at:], data[:at] + noise + data[at + len(noise) :]):
        assert code_of(spoiled) in (None, "layer_damaged")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xef\xbb\xbf" + layer_of(RECORD),
        layer_of(RECORD).decode().encode("utf-16"),
        b'{"version": 1, "prompts": [], "version": 1}',
        b'{"version": 1, "prompts": [{"id": "a_tool", "id": "b_tool"}]}',
        b'{"version": 1, "prompts": [NaN]}',
        b'{"version": 1, "prompts": [1e999]}',
        b'{"version": 1, "prompts": ["\\ud800"]}',
        b'{"version": 1, "prompts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"version": 1, "prompts": ' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"version": ' + b"1" * 5000 + b', "prompts": []}',
        b'{"version": 2, "prompts": []}',
        b'{"version": true, "prompts": []}',
        b'{"version": 1.0, "prompts": []}',
        b'{"version": "1", "prompts": []}',
        b'{"prompts": []}',
        b'{"version": 1}',
        b'{"version": 1, "prompts": {}}',
        b'{"version": 1, "prompts": [], "locked": []}',
        b'{"version": 1, "prompts": []}{"version": 1, "prompts": []}',
        b" " * (MAX_LAYER_BYTES + 1),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_a_file_that_is_no_layer_is_damaged(data: bytes) -> None:
    with pytest.raises(LayerDamaged) as raised:
        read_layer(data)
    assert raised.value.code == "layer_damaged"
    assert raised.value.message.endswith(".")


@pytest.mark.parametrize(
    "spelling", ["beat_architect", "Beat-Architect", "ＢＥＡＴ architect", "core__file_reader", "read_file"]
)
def test_an_entry_with_a_core_id_in_any_spelling_is_left_out(spelling: str) -> None:
    found = read_layer(layer_of({**RECORD, "id": spelling}, RECORD))
    assert found.tools == (tool_of(),)
    (problem,) = found.problems
    assert problem.code == "core_tool_locked"
    assert problem.entry.startswith("prompts[0]")
    assert "Locked (core)" in problem.message


@pytest.mark.parametrize(
    "record",
    [
        None,
        7,
        [],
        {},
        {**RECORD, "id": 7},
        {**RECORD, "id": "Scene Pacer"},
        {**RECORD, "prompt": ""},
        {**RECORD, "prompt": "x" * 8001},
        {**RECORD, "name": None},
        {**RECORD, "archetype": "Poet"},
        {**RECORD, "createdAt": 0},
    ],
    ids=repr,
)
def test_an_unusable_entry_is_named_and_left_out(record: Any) -> None:
    found = read_layer(layer_of({**RECORD, "id": "other_tool"}, record))
    assert [tool.id for tool in found.tools] == ["other_tool"]
    (problem,) = found.problems
    assert problem.code == "invalid_tool"
    assert problem.entry.startswith("prompts[1]")


@pytest.mark.parametrize("other", ["scene_pacer", "scenepacer", "scene__pacer"])
def test_entries_whose_ids_look_the_same_are_all_left_out(other: str) -> None:
    found = read_layer(layer_of(RECORD, {**RECORD, "id": other}, {**RECORD, "id": "other_tool"}))
    assert [tool.id for tool in found.tools] == ["other_tool"]
    assert [(problem.code, problem.id) for problem in found.problems] == [
        ("duplicate_id", "scene_pacer"),
        ("duplicate_id", other),
    ]


def test_the_name_of_an_entry_is_one_line_without_hidden_characters() -> None:
    (problem,) = read_layer(layer_of({**RECORD, "id": "a\x1b[2J\n" + "b" * 900})).problems
    assert problem.entry == "prompts[0] (a[2J " + "b" * 43 + ")"


def test_too_many_tools_are_not_written() -> None:
    large = [tool_of(id=f"tool_{number}", prompt="\u4e16" * 8000) for number in range(200)]
    with pytest.raises(InvalidValue) as raised:
        write_layer(large)
    assert raised.value.code == "layer_too_large"


def test_a_layer_of_exactly_the_limit_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(write_layer([tool_of()]))
    monkeypatch.setattr(layers, "MAX_LAYER_BYTES", size)
    assert len(write_layer([tool_of()])) == size
    monkeypatch.setattr(layers, "MAX_LAYER_BYTES", size - 1)
    with pytest.raises(InvalidValue):
        write_layer([tool_of()])


def test_a_file_proposes_what_differs_from_the_live_tools() -> None:
    same, changed, gone = tool_of(id="same_tool"), tool_of(id="changed_tool"), tool_of(id="gone_tool")
    edited, fresh = tool_of(id="changed_tool", goals=""), tool_of(id="fresh_tool")
    pinned = {tool.id: tool.digest for tool in (same, changed, gone)}
    changes = layer_changes(pinned, LayerFile((same, fresh, edited)), LayerFile((same, changed, gone)))
    assert [(change.kind, change.id, change.tool, change.base) for change in changes] == [
        ("new", "fresh_tool", fresh, None),
        ("modify", "changed_tool", edited, changed.digest),
        ("delete", "gone_tool", None, gone.digest),
    ]


def test_a_tool_that_was_never_in_the_file_is_not_proposed_for_deletion() -> None:
    approved, written = tool_of(id="approved_later"), tool_of()
    pinned = {tool.id: tool.digest for tool in (approved, written)}
    for before in (None, LayerFile(()), LayerFile((written,))):
        assert layer_changes(pinned, LayerFile((written,)), before) == []
    assert [change.id for change in layer_changes(pinned, LayerFile(()), LayerFile((written,)))] == ["scene_pacer"]


def test_an_entry_that_nobody_edited_does_not_propose_to_undo_a_later_approval() -> None:
    old, new = tool_of(), tool_of(goals="Approved later.")
    assert layer_changes({"scene_pacer": new.digest}, LayerFile((old,)), LayerFile((old,))) == []
    (undo,) = layer_changes({"scene_pacer": new.digest}, LayerFile((old,)), LayerFile((tool_of(goals=""),)))
    assert (undo.kind, undo.base) == ("modify", new.digest)


@given(LAYERS, LAYERS)
def test_a_file_with_the_live_tools_proposes_nothing(tools: list[PromptTool], before: list[PromptTool]) -> None:
    pinned = {tool.id: tool.digest for tool in tools}
    assert layer_changes(pinned, read_layer(write_layer(tools)), LayerFile(tuple(before))) == []


@pytest.mark.parametrize("entry", [{**RECORD, "prompt": ""}, {**RECORD, "id": "scene-pacer"}, {"id": 7}, None])
def test_a_tool_whose_entry_is_unusable_is_not_proposed_for_deletion(entry: Any) -> None:
    file = read_layer(layer_of(entry))
    assert layer_changes({"scene_pacer": tool_of().digest}, file, LayerFile((tool_of(),))) == []
