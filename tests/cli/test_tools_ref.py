"""`demiurge tools ref`: a toolset, ready to send with a message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_prompt_catalog import definitions
from tests.cli.conftest import callable_tools

from demiurge.registry.catalog_text import INDEX_HEADER

CLOCK, READ = "core__get_current_time", "workspace__read"


def blob(demiurge: Any, ref: str) -> Any:
    return json.loads(demiurge("blob", "get", ref, "--raw").out)


@pytest.mark.parametrize("spoken", ["openai-responses", "openai-chat", "anthropic", "local"])
def test_the_address_of_a_toolset_is_printed(demiurge: Any, spoken: str) -> None:
    done = demiurge("--json", "tools", "ref", "core.get_current_time", READ, CLOCK, "--provider", spoken)
    assert done.status == 0
    assert (done.document["provider"], done.document["tools"]) == (spoken, [CLOCK, READ])
    stored = blob(demiurge, done.document["hash"])
    assert (stored["provider"], len(stored["tools"]), "tool_choice" in stored) == (spoken, 2, False)


def test_without_tools_it_is_all_that_a_model_may_see(demiurge: Any) -> None:
    made = demiurge("--json", "tools", "ref").document["tools"]
    assert made == [tool["id"] for tool in callable_tools(demiurge("--json", "tools", "ls"))]


@pytest.mark.parametrize(
    ("choice", "written"),
    [("none", "none"), ("required", "required"), ("core.get_current_time", {"type": "function", "name": CLOCK})],
)
def test_a_choice_goes_with_it(demiurge: Any, choice: str, written: Any) -> None:
    done = demiurge("--json", "tools", "ref", CLOCK, "--choice", choice, "--provider", "openai-responses")
    assert blob(demiurge, done.document["hash"])["tool_choice"] == written


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("no_such",), "no_tool", "There is no tool no_such here"),
        (("two words",), "bad_tool_id", "'two words' is not a tool id"),
        ((CLOCK, "--choice", READ), "bad_tool_choice", f"it offers {CLOCK}"),
        ((CLOCK, "--provider", "nobody"), "unknown_provider", "There is no provider nobody"),
    ],
)
def test_an_error_names_its_cause(demiurge: Any, arguments: tuple[str, ...], code: str, words: str) -> None:
    done = demiurge("--json", "tools", "ref", *arguments)
    assert done.status in (1, 2)
    assert done.document["error"]["code"] == code
    assert words in done.document["error"]["message"]


def test_a_tool_that_the_policy_denies_is_said_to_be_denied(demiurge: Any, tmp_path: Any) -> None:
    (tmp_path / "clock.toml").write_text(f'allowed_tools = ["{CLOCK}"]\n')
    done = demiurge("--json", "tools", "ref", READ, "--policy", "clock.toml")
    assert (done.status, done.document["error"]["code"]) == (1, "policy_denied")
    assert f"`demiurge policy explain {READ}`" in done.document["error"]["message"]


def say(demiurge: Any, provider: Any, *options: str) -> list[str]:
    """Send a message with these options; the tools that the model was offered."""
    provider.say(provider.answer(provider.text("Yes.")))
    done = demiurge("chat", "-m", "Go on.", *options)
    assert done.status == 0, done
    return sorted(tool["name"] for tool in provider.seen[-1].get("tools", ()))


def test_a_chat_offers_its_own_tools_until_it_is_told_otherwise(demiurge: Any, provider: Any) -> None:
    catalog = say(demiurge, provider)
    assert len(catalog) > 2
    assert say(demiurge, provider, "--only-tools", f"core.get_current_time,{READ}") == [CLOCK, READ]
    assert say(demiurge, provider) == [CLOCK, READ]
    assert say(demiurge, provider, "--only-tools", CLOCK) == [CLOCK]
    assert say(demiurge, provider, "--all-tools") == catalog
    assert say(demiurge, provider) == catalog
    assert demiurge("replay", "--check").status == 0


def test_a_message_is_sent_with_a_stored_toolset(demiurge: Any, provider: Any) -> None:
    ref = demiurge("--json", "tools", "ref", READ, CLOCK, "--choice", "required").document["hash"]
    catalog = say(demiurge, provider)
    assert say(demiurge, provider, "--tools-ref", ref) == [CLOCK, READ]
    assert provider.seen[-1]["tool_choice"] == "required"
    assert say(demiurge, provider) == catalog
    assert say(demiurge, provider, "--only-tools", CLOCK) == [CLOCK]
    outside = demiurge("chat", "-m", "Go on.", "--tools-ref", ref)
    assert (outside.status, "does not offer" in outside.err) == (1, True)
    assert demiurge("replay", "--check").status == 0


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (("--tools-ref", "todo"), 1, "A ref is sha256:"),
        (("--tools-ref", f"sha256:{'0' * 64}"), 1, "There is no blob sha256:0000"),
        (("--only-tools", "no_such"), 1, "There is no tool no_such here"),
        (("--only-tools", f"{CLOCK},"), 1, "'' is not a tool id"),
        (("--only-tools", CLOCK, "--all-tools"), 2, "--only-tools and --all-tools exclude each other"),
    ],
)
def test_a_toolset_that_can_not_be_is_refused_and_nothing_is_said(
    demiurge: Any, provider: Any, options: tuple[str, ...], status: int, words: str
) -> None:
    done = demiurge("chat", "-m", "Go on.", *options)
    assert done.status == status
    assert words in done.err
    assert provider.seen == []


def test_a_message_goes_without_the_catalog_of_prompt_tools(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    own = definitions(tmp_path, "index")
    assert demiurge("init").status == 0
    assert demiurge("manifest", "set", str(own)).status == 0
    header = json.dumps(INDEX_HEADER)[1:-1]
    told = []
    for options in ((), ("--no-tool-catalog",), ()):
        tools = say(demiurge, provider, *options)
        assert len(tools) > 2
        told.append(header in json.dumps(provider.seen[-1]))
    assert told == [True, False, True]
    shown = demiurge("chat", "show", "--json").document["messages"]
    assert [message.get("skip_tool_catalog", False) for message in shown if message["role"] == "user"] == [
        False,
        True,
        False,
    ]
