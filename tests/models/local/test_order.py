from __future__ import annotations

import json

from demiurge.models.local.order import in_natural_order
from demiurge.tools.spec import ToolSpec


def ordered(required: list[str], **descriptions: str) -> list[str]:
    schema = {
        "type": "object",
        "properties": {name: {"type": "string", "description": about} for name, about in descriptions.items()},
        "required": required,
        "additionalProperties": False,
    }
    before = ToolSpec("math__add", "Add.", schema)
    (after,) = in_natural_order([before])
    assert after.spec_hash == before.spec_hash
    assert after.input_schema == before.input_schema
    return list(json.loads(json.dumps(after.input_schema))["properties"])


def test_required_arguments_come_first_and_otherwise_the_order_stays() -> None:
    assert ordered(["path", "text"], mode="x", path="x", text="x", zone="x") == ["path", "text", "mode", "zone"]


def test_an_argument_comes_after_the_arguments_that_its_description_names() -> None:
    assert ordered([], key="The key of a cell of the module.", module="The module.") == ["module", "key"]
    assert ordered([], a="Part of b.", b="Part of c.", c="All.") == ["c", "b", "a"]


def test_arguments_that_speak_of_each_other_keep_their_order() -> None:
    assert ordered([], a="Not with b.", b="Not with a.") == ["a", "b"]


def test_a_schema_without_properties_is_left_alone() -> None:
    (after,) = in_natural_order([ToolSpec("math__add", "Add.", {"type": "object"})])
    assert after.input_schema == {"type": "object"}
