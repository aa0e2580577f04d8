"""What `init` and the first `chat` were told is remembered: for this user, this world and this place alone."""

from __future__ import annotations

import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import callable_tools

BELL = '''
from demiurge.tools import ToolEffect, tool
print_me = "{mark}"

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def {name}(times: int) -> str:
    """Ring the bell."""
    return "rang"
'''


@pytest.fixture(autouse=True)
def bell(tmp_path: Path, environment: Any) -> None:
    (tmp_path / "kept_bell.py").write_text(BELL.format(mark="kept", name="kept_bell"))
    (tmp_path / "open.toml").write_text('allowed_tools = ["kept_bell"]\n')


def ids(demiurge: Any, *options: str) -> list[str]:
    return [tool["id"] for tool in callable_tools(demiurge("--json", "tools", "ls", *options))]


def records(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / ".config/demiurge/worlds").glob("*.json"))


def test_later_commands_have_the_tools_and_the_policy(demiurge: Any, tmp_path: Path) -> None:
    done = demiurge("init", "--tools", "kept_bell", "--policy", "open.toml")
    assert done.status == 0
    assert "Remembered for this world: --tools kept_bell --policy" in done.err
    assert ids(demiurge) == ["kept_bell"]
    assert demiurge("--json", "tools", "call", "kept_bell", '{"times": 1}').document["ok"]
    [record] = records(tmp_path)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert "kept_bell" not in "".join(p.read_text("latin-1") for p in (tmp_path / "world").glob("*.json"))


def test_options_of_a_command_come_before_remembered_ones(demiurge: Any, tmp_path: Path) -> None:
    demiurge("init", "--tools", "kept_bell", "--policy", "open.toml")
    (tmp_path / "none.toml").write_text("allowed_tools = []\n")
    assert ids(demiurge, "--policy", "none.toml") == []
    assert ids(demiurge) == ["kept_bell"]


def test_the_first_chat_is_remembered_and_no_later_one(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    assert "Remembered for" in demiurge("chat", "-m", "Hi.", "--tools", "kept_bell").err
    (tmp_path / "none.toml").write_text("allowed_tools = []\n")
    done = demiurge("chat", "-m", "Hi.", "--policy", "none.toml")
    assert "As remembered for this world: --tools kept_bell." in done.err
    assert "kept_bell" in ids(demiurge)


def test_a_copy_of_the_world_has_no_remembered_options(demiurge: Any, tmp_path: Path) -> None:
    demiurge("init", "--tools", "kept_bell", "--policy", "open.toml")
    shutil.copytree(tmp_path / "world", tmp_path / "copy")
    assert "kept_bell" not in ids(demiurge, "-w", str(tmp_path / "copy"), "--policy", "open.toml")


def test_another_world_in_the_same_folder_has_no_remembered_options(demiurge: Any, tmp_path: Path) -> None:
    demiurge("init", "--tools", "kept_bell", "--policy", "open.toml")
    shutil.rmtree(tmp_path / "world")
    assert demiurge("init").status == 0
    assert "kept_bell" not in ids(demiurge)


def test_the_module_is_the_one_that_was_meant(process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of that name in the folder where the next command happens to run."""
    for place in ("meant", "other"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "my_tools.py").write_text(BELL.format(mark=place, name=f"{place}_bell"))
    monkeypatch.chdir(tmp_path / "meant")
    assert process("init", "--tools", "my_tools").status == 0
    monkeypatch.chdir(tmp_path / "other")
    found = [tool["id"] for tool in callable_tools(process("--json", "tools", "ls"))]
    assert "meant_bell" in found
    assert "other_bell" not in found


def test_a_module_that_was_found_elsewhere_is_found_there_again(
    process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("one", "two/pack", "here"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "one" / "first_tools.py").write_text(BELL.format(mark="one", name="first_bell"))
    (tmp_path / "two" / "pack" / "__init__.py").touch()
    (tmp_path / "two" / "pack" / "tools.py").write_text(BELL.format(mark="two", name="second_bell"))
    monkeypatch.chdir(tmp_path / "here")
    places = {"PYTHONPATH": f"{tmp_path / 'one'}:{tmp_path / 'two'}"}
    assert process("init", "--tools", "first_tools", "--tools", "pack.tools", given=places).status == 0
    listed = process("--json", "tools", "ls").document
    assert {"first_bell", "second_bell"} <= {tool["id"] for tool in listed["tools"]}


def test_a_chat_goes_on_at_the_address_that_it_began_at(
    demiurge: Any, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody")
    provider.say(provider.answer(provider.text("Hello.")))
    there = ("--base-url", provider.url, "--provider", "openai-responses")
    assert demiurge("chat", "-m", "Hi.", *there).status == 0
    again = demiurge("chat", "-m", "Hi again.")
    assert (again.status, len(provider.seen)) == (0, 2)
    assert provider.url in again.err
    assert demiurge("chat", "-m", "Hi.", "--provider", "openai-responses").status == 1, (
        "the usual place, where it says so"
    )
    assert demiurge("chat", "-m", "Hi.").status == 1, "and from then on"
    assert len(provider.seen) == 2


def test_the_profile_can_be_forgotten(demiurge: Any, tmp_path: Path) -> None:
    demiurge("init", "--tools", "kept_bell")
    assert demiurge("init", "--forget").status == 0
    assert "kept_bell" not in ids(demiurge)
    assert "kept_bell" not in str(records(tmp_path))


def test_a_missing_policy_file_stops_commands_that_run_tools_and_not_those_that_read(
    demiurge: Any, tmp_path: Path
) -> None:
    demiurge("init", "--policy", "open.toml")
    (tmp_path / "open.toml").unlink()
    done = demiurge("tools", "call", "core__get_current_time")
    assert done.status == 1
    assert "open.toml" in done.err
    looked = demiurge("journal", "verify")
    assert looked.status == 0
    assert "--forget" in looked.err


def test_a_record_that_others_could_write_is_not_believed(demiurge: Any, tmp_path: Path) -> None:
    demiurge("init", "--tools", "kept_bell")
    [record] = records(tmp_path)
    record.chmod(0o666)
    done = demiurge("tools", "ls")
    assert done.status == 1
    assert "chmod 600" in done.err


def test_a_command_joins_an_owner_that_has_other_tools(process: Any, provider: Any, tmp_path: Path) -> None:
    """What was only remembered is no reason to be turned away; what is said is."""
    (tmp_path / "none.toml").write_text("allowed_tools = []\n")
    assert process("init", "--tools", "kept_bell").status == 0
    provider.say(provider.answer(provider.text("Done."), held=True))
    owner = process.start("chat", "-m", "Think hard.", "--policy", "none.toml")
    assert provider.asked.wait(20)
    joined = process("--json", "tools", "ls")
    (tmp_path / "bell.toml").write_text('allowed_tools = ["kept_bell"]\n')
    refused = process("--json", "tools", "ls", "--policy", "bell.toml")
    provider.let_go.set()
    assert process.finish(owner).status == 0
    assert callable_tools(joined) == []
    assert (refused.status, refused.document["error"]["code"]) == (1, "owned")


def asks_at_its_own_address(demiurge: Any, provider: Any) -> str:
    """A chat that has been told where to ask; the id of the call that waits in it."""
    ring = provider.call("kept_bell", {"times": 1})
    provider.say(provider.answer(ring), provider.answer(provider.text("It rang.")))
    there = ("--base-url", provider.url, "--provider", "openai-responses")
    done = demiurge("--json", "chat", "-m", "Ring.", "--tools", "kept_bell", *there)
    [approval] = done.document["approvals"]
    return str(approval)


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_decision_goes_on_where_the_chat_asked(
    verb: str, demiurge: Any, provider: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody")
    waiting = asks_at_its_own_address(demiurge, provider)
    done = demiurge("approvals", verb, waiting)
    assert (done.status, len(provider.seen)) == (0, 2)
    assert "It rang." in done.out
    [record] = records(tmp_path)
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert "sk-test" not in record.read_text()
    assert provider.url not in "".join(p.read_text("latin-1") for p in (tmp_path / "world").rglob("*") if p.is_file())


def test_a_decision_uses_the_address_of_the_calls_own_chat(
    demiurge: Any, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody")
    waiting = asks_at_its_own_address(demiurge, provider)
    provider.say(provider.answer(provider.text("Hello.")))
    assert demiurge("chat", "other", "-m", "Hi.", "--base-url", provider.url).status == 0
    assert demiurge("chat", "third", "-m", "Hi.").status == 1, "what was said for one chat is for no other"
    provider.say(provider.answer(provider.text("It rang.")))
    assert demiurge("approvals", "approve", waiting).status == 0


def test_an_address_with_a_key_in_it_is_not_kept(demiurge: Any, provider: Any, tmp_path: Path) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    for address in (provider.url.replace("://", "://me:canary@"), f"{provider.url}?key=canary"):
        demiurge("chat", "-m", "Hi.", "--base-url", address)
    assert all("canary" not in record.read_text() for record in records(tmp_path))


def test_a_copy_asks_at_no_address_of_the_original(
    demiurge: Any, provider: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody")
    waiting = asks_at_its_own_address(demiurge, provider)
    shutil.copytree(tmp_path / "world", tmp_path / "copy")
    done = demiurge("-w", str(tmp_path / "copy"), "approvals", "reject", waiting, "--tools", "kept_bell")
    assert (done.status, len(provider.seen)) == (1, 1)


def test_a_forgotten_or_replaced_address_is_not_asked(
    demiurge: Any, provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, waiting = provider.url, asks_at_its_own_address(demiurge, provider)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody")
    assert demiurge("init", "--forget").status == 0
    assert demiurge("approvals", "reject", waiting, "--tools", "kept_bell").status == 1
    assert len(provider.seen) == 1
    monkeypatch.setenv("OPENAI_BASE_URL", usual)
    waiting = asks_at_its_own_address(demiurge, provider)
    refused = demiurge("approvals", "reject", waiting, "--tools", "kept_bell", "--base-url", "http://127.0.0.1:9/no")
    assert (refused.status, len(provider.seen)) == (1, 1)


def without_bell(demiurge: Any, tmp_path: Path, *how: str) -> None:
    """A world that remembers a module whose file is gone."""
    assert demiurge(*how, "--tools", "kept_bell").status == 0
    (tmp_path / "kept_bell.py").unlink()
    sys.modules.pop("kept_bell")


def test_a_remembered_module_that_is_gone_is_named_with_the_ways_out(
    demiurge: Any, provider: Any, tmp_path: Path
) -> None:
    provider.say(provider.answer(provider.text("Hello.")))
    without_bell(demiurge, tmp_path, "chat", "-m", "Hi.")
    refused, looked = demiurge("chat", "-m", "Hi."), demiurge("approvals", "ls")
    assert (refused.status, looked.status) == (1, 0)
    for said in (refused.err, looked.err):
        assert "There is no Python module kept_bell" in said
        assert "This world remembers --tools kept_bell, " in said
        assert "which an earlier `demiurge init` or `demiurge chat` named" in said
        assert "`demiurge init --tools MODULE` remembers another module" in said
        assert "`demiurge init --forget` forgets it" in said
        assert "--tools takes a name" not in said


def test_doctor_says_once_that_a_remembered_module_is_gone(demiurge: Any, tmp_path: Path) -> None:
    without_bell(demiurge, tmp_path, "init")
    done = demiurge("doctor")
    assert (done.err + done.out).count("There is no Python module kept_bell") == 1
    assert "`demiurge init --forget` forgets it" in done.err + done.out


@pytest.mark.parametrize("given", [("--tools", "new_bell"), ("--tools", "new_bell", "--policy", "open.toml")])
def test_given_tools_win_over_remembered_ones_that_are_gone(
    demiurge: Any, provider: Any, tmp_path: Path, given: tuple[str, ...]
) -> None:
    without_bell(demiurge, tmp_path, "init")
    (tmp_path / "new_bell.py").write_text(BELL.format(mark="new", name="new_bell"))
    provider.say(provider.answer(provider.text("Hello.")))
    done = demiurge("chat", "-m", "Hi.", *given)
    assert done.status == 0, done.err
    assert "As remembered" not in done.err
    assert "For this command alone: --tools new_bell" in done.err
    assert "`demiurge init --tools new_bell" in done.err
    assert demiurge("init", *given).status == 0
    assert "new_bell" in ids(demiurge, "--all")


def test_a_given_policy_does_not_hide_that_remembered_tools_are_gone(demiurge: Any, tmp_path: Path) -> None:
    without_bell(demiurge, tmp_path, "init")
    done = demiurge("tools", "call", "core__get_current_time", "--policy", "open.toml")
    assert done.status == 1
    assert "This world remembers --tools kept_bell" in done.err
    assert "`demiurge init --forget`" in done.err


def test_a_missing_module_that_was_given_is_not_called_remembered(demiurge: Any) -> None:
    demiurge("init", "--tools", "kept_bell")
    done = demiurge("tools", "ls", "--tools", "gone_bell")
    assert "There is no Python module gone_bell here; --tools takes a name such as my_tools." in done.err
    assert "remember" not in done.err


def test_chat_says_what_it_takes_from_memory_and_what_is_for_this_command_alone(demiurge: Any, provider: Any) -> None:
    provider.say(*[provider.answer(provider.text("Hello."))] * 4)
    assert "Remembered for this world: --tools kept_bell." in demiurge("chat", "-m", "Hi.", "--tools", "kept_bell").err
    same = demiurge("chat", "-m", "Hi.", "--tools", "kept_bell").err
    assert "emember" not in same
    assert "alone" not in same
    mixed = demiurge("chat", "-m", "Hi.", "--policy", "open.toml").err
    assert "As remembered for this world: --tools kept_bell." in mixed
    assert "For this command alone: --policy open.toml. `demiurge init --policy open.toml` remembers it" in mixed


def test_forgetting_says_what_was_forgotten(demiurge: Any) -> None:
    demiurge("init", "--tools", "kept_bell", "--policy", "open.toml")
    done = demiurge("init", "--forget")
    assert "Forgotten for this world: --tools kept_bell --policy" in done.err
    assert "nothing was changed" not in done.out
    again = demiurge("init", "--forget")
    assert "Nothing was remembered for this world." in again.err
    changed = demiurge("init", "--tools", "kept_bell")
    assert "nothing was changed" not in changed.out
    assert "nothing was changed" in demiurge("init").out
