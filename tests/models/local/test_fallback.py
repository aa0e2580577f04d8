from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.models.local.fallback import HeldText, call_in_text, guided_call, guided_format
from demiurge.tools.spec import ToolSpec

NAMES = frozenset({"core__add"})
CALL = '{"name": "core__add", "arguments": {"a": 1}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"\n {CALL}\n",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}</tool_call>",
        f"```json\n{CALL}\n```",
        f"```tool_call\n{CALL}\n```\n",
        f"```\n{CALL}\n```",
        f"tool_call\n{CALL}\n",
    ],
)
def test_a_whole_answer_that_is_one_call_is_found(text: str) -> None:
    assert call_in_text(text, NAMES) == ("core__add", '{"a": 1}')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        f"I will call it: {CALL}",
        f"{CALL} and that is it",
        f"{CALL}\n{CALL}",
        f"<tool_call>{CALL}",
        f"```python\n{CALL}\n```",
        '{"name": "other", "arguments": {}}',
        '{"name": "core__add", "arguments": "{}"}',
        '{"name": "core__add", "arguments": []}',
        '{"name": "core__add"}',
        '{"name": "core__add", "arguments": {}, "more": 1}',
        '{"name": "core__add", "arguments": {"a": 1, "a": 2}}',
        '{"name": "core__add", "arguments": {"a": NaN}}',
        '{"name": ["core__add"], "arguments": {}}',
        '[{"name": "core__add", "arguments": {}}]',
        '{"name": "core__add", "arguments": {"a": 1}',
    ],
)
def test_anything_else_stays_text(text: str) -> None:
    assert call_in_text(text, NAMES) is None


@given(st.text())
def test_no_text_makes_it_fail(text: str) -> None:
    call_in_text(text, NAMES)
    guided_call(text, NAMES)


@given(st.text(alphabet='<tool_call>`json{"\n a'), st.data())
def test_held_text_comes_out_whole_and_in_order(text: str, data: st.DataObject) -> None:
    held, shown, at = HeldText(), "", 0
    while at < len(text):
        step = data.draw(st.integers(1, 5))
        shown += held.feed(text[at : at + step])
        at += step
    assert shown + held.rest() == text
    if call_in_text(text, NAMES) is not None:
        assert shown == ""


def test_plain_text_is_shown_at_once() -> None:
    held = HeldText()
    assert held.feed("Hel") == "Hel"
    assert held.feed("lo {") == "lo {"
    assert held.rest() == ""


def test_a_guided_answer_may_be_each_tool_and_nothing_else() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    specs = [ToolSpec("core__add", "Add.", schema), ToolSpec("core__sub", "Subtract.", schema)]
    guided = guided_format(specs, "required")
    assert guided is not None
    forms = guided["json_schema"]["schema"]["anyOf"]
    assert [form["properties"]["name"]["const"] for form in forms] == ["core__add", "core__sub"]
    assert guided_format(specs, "auto") is None
    assert guided_format(specs, None) is None
    assert guided_format([], "required") is None


@pytest.mark.parametrize("cut", range(1, len(CALL)))
def test_a_cut_guided_answer_is_never_whole(cut: int) -> None:
    found = guided_call(CALL[:cut], NAMES)
    if found is not None:
        (name, arguments), whole = found
        assert (name, whole) == ("core__add", False)
        assert '{"a": 1}}'.startswith(arguments)


def test_a_whole_guided_answer_is_a_call() -> None:
    assert guided_call(CALL, NAMES) == (("core__add", json.dumps({"a": 1})), True)
