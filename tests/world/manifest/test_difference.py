"""A whole manifest that began as a copy of the app becomes an extension of the app."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from demiurge.apps.demiurge import app
from demiurge.world.manifest import Folder, difference, extended, problems

NOTE = {"$kind": "defschema", "name": "ex/Note@1", "type": {"record": {"text": {"text": {}}}}}
RULE = {"when": {"effect_kind": "http.request", "origin_kind": "tool"}, "decision": "allow"}
WEB = {"name": "web", "cap": "sys/http.out@1", "params": {"hosts": ["api.example.com"]}}

Change = Callable[[list[Any], dict[str, Any]], None]


def copied(change: Change) -> Folder:
    """A copy of the app's manifest, changed."""
    definitions, root = json.loads(json.dumps([app().definitions, dict(app().root)]))
    change(definitions, root)
    return Folder.of(definitions, root)


def found(change: Change) -> tuple[list[Any], list[str]]:
    parts, notes = difference(copied(change), "demiurge", app().folder)
    return list(parts), notes


def joined(parts: list[Any]) -> Folder:
    *definitions, root = parts
    return extended(Folder.of(definitions, root), {"demiurge": lambda: app().folder})


def policy_of(definitions: list[Any]) -> Any:
    return next(d for d in definitions if d["$kind"] == "defpolicy")


def test_a_copy_has_nothing_beside_the_app() -> None:
    assert found(lambda definitions, root: None) == ([{"$kind": "manifest", "extends": "demiurge"}], [])


def test_additions_become_an_extension_that_gives_the_same_manifest() -> None:
    def change(definitions: list[Any], root: dict[str, Any]) -> None:
        definitions.append(NOTE)
        policy_of(definitions)["rules"].insert(0, RULE)
        root["defaults"]["cap_grants"].append(WEB)
        root["settings"]["window_turns"] = 8
        root["tool_policy"] = {"allowed_tools": []}

    parts, notes = found(change)
    assert notes == []
    assert parts == [
        NOTE,
        {"$kind": "defpolicy", "name": "own/policy@1", "rules": [RULE]},
        {
            "$kind": "manifest",
            "extends": "demiurge",
            "defaults": {"policy": "own/policy@1", "cap_grants": [WEB]},
            "settings": {"window_turns": 8},
            "tool_policy": {"allowed_tools": []},
        },
    ]
    folder, whole = joined(parts), copied(change)
    assert problems(folder) == ()
    rules = {d["name"]: d["rules"] for d in folder.contents() if d["$kind"] == "defpolicy"}
    assert rules["own/policy@1"] == policy_of(whole.contents())["rules"]
    ours, theirs = folder.root(), whole.root()
    assert ours["settings"] == theirs["settings"]
    assert ours["defaults"]["cap_grants"] == theirs["defaults"]["cap_grants"]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            lambda d, r: d.remove(next(x for x in d if x["name"] == "demiurge/refusal_plan@1")),
            "also has demiurge/refus",
        ),
        (lambda d, r: d[0].update(type={"record": {}}), "differs from that of demiurge, which stays"),
        (lambda d, r: r["defaults"]["cap_grants"].pop(), "also has cap_webhook among the cap_grants of demiurge"),
        (lambda d, r: r["triggers"].pop(), "among the triggers of demiurge"),
        (lambda d, r: r["triggers"][0].pop("correlate_by"), "among the triggers differs from that of demiurge"),
        (lambda d, r: r["settings"].pop("window_turns"), "also has the setting window_turns of demiurge"),
        (lambda d, r: policy_of(d)["rules"].pop(0), "also holds"),
    ],
)
def test_a_difference_that_an_extension_does_not_express_is_a_note(change: Change, note: str) -> None:
    parts, notes = found(change)
    assert len(notes) == 1
    assert note in notes[0]
    assert problems(joined(parts)) == ()
