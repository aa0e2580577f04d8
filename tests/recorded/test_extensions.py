"""Recorded worlds whose manifest extends the app open under the present app, replay, and go on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.recorded.unpacking import Recording, as_definitions, differences

from demiurge import World
from demiurge.apps.demiurge import app

RECORDED = "extensions"


def opened(recording: Recording, name: str, **more: Any) -> World:
    return World.open(recording.world(name), recording.module("web_tools").TOOLS, create=False, **more)


@pytest.mark.parametrize("name", ["desk", "fork"])
def test_a_world_with_an_extension_verifies_and_replays_to_the_states_that_it_had(
    recording: Recording, demiurge: Any, name: str
) -> None:
    assert differences(recording, demiurge, name) == []


def test_the_log_tells_the_changes_of_the_extension_and_of_the_hosts(recording: Recording, demiurge: Any) -> None:
    log = [[entry["how"], as_definitions(entry["changed"])] for entry in demiurge("desk", "manifest", "log")]
    assert log[: len(recording.facts["log"])] == recording.facts["log"]


@pytest.mark.parametrize("name", ["desk", "fork"])
async def test_a_recorded_extension_is_joined_with_the_present_app(recording: Recording, name: str) -> None:
    async with opened(recording, name, http=["rates.invalid"]) as world:
        manifest = world.manifest()
        root = manifest["root"]
        settings = {key: value for key, value in root["settings"].items() if key != "system_ref"}
        assert settings == {**app().root["settings"], "window_turns": 16}
        grants = [grant["name"] for grant in app().root["defaults"]["cap_grants"] if grant["name"] != "cap_webhook"]
        assert [grant["name"] for grant in root["defaults"]["cap_grants"]] == [*grants, "clock"]
        assert (await world.chat("main").send("And now?")).text == "Still here."
        assert (await world.call("introspect__manifest", "{}")).error_code == "policy_denied"
        refused = await world.call("rate", '{"host": "other.invalid"}')
        assert refused.message == "Requests may go only to these hosts, by https: rates.invalid."
        assert (await world.replay())["ok"]
