"""The allowlist of public fields: each is a field that the shipped definitions have, and nothing else passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.small_world import chat_manifest

from demiurge.apps.demiurge import CALLS, CHAT
from demiurge.bootstrap.backend import public_fields
from demiurge.bootstrap.backend.public_fields import WITHHELD, Fields, cell_fields, public_part, record_fields
from demiurge.world.effect_kinds import TOOL
from demiurge.world.effect_kinds.llm import LLM
from demiurge.world.manifest import Manifest


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return chat_manifest()


def names(manifest: Manifest, schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The fields of a schema that is a record, or a list or an option of one."""
    if "ref" in schema:
        return names(manifest, manifest.schemas.get(schema["ref"]))
    if "list" in schema or "option" in schema:
        return names(manifest, schema.get("list") or schema["option"])
    fields: Mapping[str, Mapping[str, Any]] = schema["record"]
    return fields


def assert_declared(manifest: Manifest, schema: Mapping[str, Any], fields: Fields) -> None:
    declared = names(manifest, schema)
    assert set(fields) <= set(declared)
    for name, inner in fields.items():
        if inner is not None:
            assert_declared(manifest, declared[name], inner)


def test_every_public_field_of_a_state_is_declared(manifest: Manifest) -> None:
    for module in (CHAT, CALLS):
        assert_declared(manifest, manifest.schemas.get(manifest.modules[module].state), cell_fields(module))


@pytest.mark.parametrize("schema", sorted(public_fields.EVENTS))
def test_every_public_field_of_an_event_is_declared(manifest: Manifest, schema: str) -> None:
    assert_declared(manifest, manifest.schemas.get(schema), public_fields.EVENTS[schema])


@pytest.mark.parametrize("kind", [TOOL, LLM])
def test_every_public_field_of_an_effect_is_declared(manifest: Manifest, kind: str) -> None:
    effect = manifest.effects[kind]
    params = record_fields("intent", {}, kind)["params"]
    payload = record_fields("receipt", {"status": "ok"}, kind)["payload"]
    assert params
    assert payload
    assert_declared(manifest, manifest.schemas.get(effect.params), params)
    assert_declared(manifest, manifest.schemas.get(effect.receipt), payload)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(ANYTHING, st.text(), st.sampled_from(["event", "intent", "receipt", "strange", "plan_ended"]))
def test_a_value_without_an_allowlist_entry_is_withheld(value: object, name: str, kind: str) -> None:
    """Events, effects and states of a world's own definitions, and kinds of records to come."""
    assert public_part({"secret": value}, cell_fields("ex/Own@1")) == WITHHELD
    body: dict[str, Any] = {
        "event": {"schema": "ex/Own@1", "value": {name: value}},
        "intent": {"kind": "ex.own", "params": value},
    }
    body |= {"receipt": {"status": "ok", "payload": value}, "plan_ended": {"result": value}}
    shown = public_part(body.get(kind, value), record_fields(kind, body.get(kind, {}), "ex.own"))
    hidden = {"event": "value", "intent": "params", "receipt": "payload", "plan_ended": "result"}
    part = shown[hidden[kind]] if kind in hidden else shown
    assert part == (None if value is None and kind in ("intent", "receipt", "strange") else WITHHELD)


@given(ANYTHING)
def test_a_field_beside_the_public_ones_is_withheld(value: object) -> None:
    fields: Fields = {"id": None, "calls": {"name": None}}
    shown = public_part({"id": 1, "new": value, "calls": [{"name": "x", "arguments": value}]}, fields)
    assert shown == {"id": 1, "new": WITHHELD, "calls": [{"name": "x", "arguments": WITHHELD}]}


def test_the_length_of_a_list_is_shown() -> None:
    assert public_part({"messages": 3}, cell_fields(CHAT)) == {"messages": 3}
