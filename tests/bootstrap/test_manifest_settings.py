"""The settings of a new manifest that holds the app are checked; a world made earlier opens with those it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_extension import extension, opened

from demiurge.apps.demiurge import app
from demiurge.bootstrap import manifest
from demiurge.bootstrap.backend.prompt_catalog import FORMS
from demiurge.bootstrap.manifest_settings import SETTINGS, folder_problems
from demiurge.world.manifest import BadManifest, Folder, extended, problems

SCHEMAS = [
    {"$kind": "defschema", "name": "ex/Event@1", "type": {"record": {}}},
    {"$kind": "defschema", "name": "ex/State@1", "type": {"record": {}}},
]
ABI = {"state": "ex/State@1", "event": "ex/Event@1"}
MODULE = {"$kind": "defmodule", "name": "ex/Own@1", "module_kind": "reducer", "abi": ABI}


def found(settings: Any, *definitions: Any) -> list[str]:
    folder = Folder.of(definitions, {"extends": "demiurge", "settings": settings})
    return [str(problem) for problem in folder_problems(extended(folder, {"demiurge": lambda: app().folder}))]


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("max_tokens", -1, "write a whole number from 1"),
        ("max_tokens", True, "write a whole number from 1"),
        ("max_tokens", 2**63, "write a whole number from 1"),
        ("window_turns", "x", "write a whole number from 1"),
        ("window_turns", 0, "write a whole number from 1"),
        ("max_tool_rounds", None, "write a whole number from 0"),
        ("temperature", 5, "write a decimal number from 0 to 2"),
        ("temperature", "5", "write a decimal number from 0 to 2"),
        ("temperature", "warm", "write a decimal number from 0 to 2"),
        ("system_ref", "sha256:0", "write the ref of a blob"),
        ("prompt_catalog", "short", "write auto or index or full or off"),
        ("core_pack", ["named"], "write named or offered"),
        ("model_runs", {"max_request": 1}, "write an object with any of max_requests"),
        ("model_runs", {"max_requests": -1}, "write an object with any of max_requests"),
    ],
)
def test_a_value_that_no_reader_can_use_is_a_problem_at_its_place(name: str, value: Any, fix: str) -> None:
    [problem] = found({name: value})
    assert problem.startswith(f"manifest: settings.{name}: ")
    assert "is no value of this setting; " + fix in problem


@pytest.mark.parametrize(
    "settings",
    [
        {"max_tokens": 1, "window_turns": 1, "max_tool_rounds": 0, "temperature": "0.7"},
        {"system_ref": "sha256:" + "0" * 64, "core_pack": "offered", "prompt_catalog": "off"},
        {"model_runs": {"max_requests": 0, "max_cost_micros": 5}},
    ],
)
def test_the_values_that_the_readers_use_are_no_problem(settings: Any) -> None:
    assert found(settings) == []


def test_an_unknown_setting_is_a_problem_with_a_suggestion() -> None:
    assert found({"window_turn": 3, "provider": "openai"}) == [
        "manifest: settings.window_turn: is no setting of the app; perhaps you mean window_turns",
        "manifest: settings.provider: is no setting of the app; leave it out",
    ]


def test_modules_of_ones_own_have_settings_of_their_own() -> None:
    assert found({"shelf": 3}, *SCHEMAS, MODULE) == []
    assert problems(Folder.of([], {"settings": {"shelf": 3}})) == folder_problems(
        Folder.of([], {"settings": {"shelf": 3}})
    )


def test_a_changed_copy_of_the_app_is_checked_too() -> None:
    settings = {**app().root["settings"], "window_turns": 0}
    assert [
        str(each) for each in folder_problems(Folder.of(app().definitions, {**app().root, "settings": settings}))
    ] == [
        "manifest: settings.window_turns: 0 is no value of this setting; write a whole number from 1",
    ]


def test_the_shipped_app_passes_its_own_check() -> None:
    assert folder_problems(app().folder) == ()
    assert app().root["settings"].keys() <= SETTINGS.keys()
    assert all(SETTINGS["prompt_catalog"].accepts(form) for form in FORMS)


def test_a_long_value_is_quoted_in_part() -> None:
    [problem] = found({"core_pack": "x" * 1000})
    assert len(problem) < 200


async def test_a_world_refuses_such_a_manifest_and_one_made_earlier_still_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = extension(tmp_path / "mine", settings={"prompt_catalog": "short"})
    with pytest.raises(BadManifest, match=r"mine\.json: \[0\]\.settings\.prompt_catalog: "):
        async with opened(tmp_path / "w", manifest=mine):
            pass
    with monkeypatch.context() as earlier:
        earlier.setattr(manifest, "folder_problems", problems)
        async with opened(tmp_path / "w", manifest=mine):
            pass
    async with opened(tmp_path / "w") as world:
        assert world.manifest()["root"]["settings"]["prompt_catalog"] == "short"
        assert (await world.info())["unfit"] is None
