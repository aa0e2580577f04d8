"""`demiurge approvals` where the arguments of a call, or its records, are damaged: it still says what waits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_terminal import Terminal, terminal
from tests.provider import Provider

from demiurge.stores.sqlite.store import SqliteStore

__all__ = ["terminal"]

BELL = '''
from demiurge.tools import ToolEffect, tool

@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang"
'''


@pytest.fixture(autouse=True)
def bell(tmp_path: Path, environment: Any) -> None:
    (tmp_path / "bell_tools.py").write_text(BELL)


def ask(demiurge: Any, times: int) -> str:
    here = ("ring_bell", f'{{"times": {times}}}', "--call-id", f"b{times}", "--tools", "bell_tools")
    waiting: str = demiurge("--json", "tools", "call", *here).document["approval"]
    return waiting


def damage(world: Path, digest: bytes, at: int) -> None:
    """Flip a bit of what lies in the journal's database behind this hash."""
    database = world / "journal.db"
    content = bytearray(database.read_bytes())
    found = [place for place in places(content, digest) if chr(content[place + 32]) in "{\xd9"]
    assert len(found) == 1
    content[found[0] + 32 + at] ^= 1
    database.write_bytes(content)


def places(content: bytearray, wanted: bytes) -> Iterator[int]:
    place = content.find(wanted)
    while place >= 0:
        yield place
        place = content.find(wanted, place + 1)


def damage_call(demiurge: Any, world: Path, times: int) -> str:
    """Damage the blob with the arguments of a call; its address."""
    ref: str = demiurge("state", "get", "demiurge/Calls@1", "--key", f"b{times}").document["call_ref"]
    damage(world, bytes.fromhex(ref.removeprefix("sha256:")), 10)
    assert demiurge("blob", "get", ref).status == 1
    return ref


def test_a_call_whose_arguments_are_damaged_is_listed_as_damaged(demiurge: Any, world: Path) -> None:
    sound, damaged = ask(demiurge, 1), ask(demiurge, 2)
    damage_call(demiurge, world, 2)
    listed = demiurge("approvals", "ls")
    assert listed.status == 1
    assert "Nothing waits" not in listed.out
    lines = {line.split()[0]: line for line in listed.out.splitlines()[1:]}
    assert '{"times":1}' in lines[sound[:12]]
    assert "damaged" in lines[damaged[:12]]
    assert "arguments" in listed.err
    document = demiurge("--json", "approvals", "ls")
    assert (document.status, document.document["error"]["code"]) == (1, "damaged")
    shown = {asked["id"]: asked for asked in document.document["approvals"]}
    assert shown[sound]["damaged"] is None
    assert shown[damaged]["arguments_json"] is None
    assert "damaged" in shown[damaged]["damaged"]
    assert (shown[damaged]["tool"], shown[damaged]["unit"]) == ("ring_bell", "demiurge/Calls@1/b2")


def test_of_a_call_whose_arguments_are_gone_is_said_what_to_do(demiurge: Any, world: Path) -> None:
    gone = ask(demiurge, 2)
    ref = demiurge("state", "get", "demiurge/Calls@1", "--key", "b2").document["call_ref"]
    with closing(sqlite3.connect(world / "journal.db", isolation_level=None)) as db:
        db.execute("DELETE FROM blob WHERE digest = ?", (bytes.fromhex(ref.removeprefix("sha256:")),))
    listed = demiurge("--json", "approvals", "ls")
    [asked] = listed.document["approvals"]
    assert (listed.status, asked["id"], asked["arguments_json"]) == (1, gone, None)
    assert asked["damaged"] == f"There is no blob {ref} in this world. Restore the world from a backup."
    verified = demiurge("journal", "verify")
    assert verified.status == 1
    assert f"There is no blob {ref} in this world. Restore the world from a backup." in verified.err


@pytest.mark.parametrize("verb", ["show", "approve", "reject"])
def test_a_call_whose_arguments_are_damaged_can_t_be_decided_on(verb: str, demiurge: Any, world: Path) -> None:
    damaged = ask(demiurge, 2)
    damage_call(demiurge, world, 2)
    extra = () if verb == "show" else ("--tools", "bell_tools")
    done = demiurge("approvals", verb, damaged, *extra)
    assert done.status == 1
    assert "damaged" in done.err
    assert "No call" not in done.err


def test_a_terminal_shows_a_waiting_call_as_a_card_with_the_commands_that_decide_on_it(
    demiurge: Any, terminal: Callable[..., Terminal], provider: Provider
) -> None:
    provider.say(Provider.answer(Provider.call("ring_bell", {"times": 7}, "c1")))
    assert demiurge("chat", "--tools", "bell_tools", "--message", "Ring.").status == 1
    [waiting] = demiurge("--json", "approvals", "ls").document["approvals"]
    short = waiting["id"][:12]
    assert demiurge("approvals", "show", short).document["arguments_json"] == waiting["arguments_json"]
    screen = terminal("approvals", "show", short)
    shown = screen.expect("approvals reject " + short)
    assert screen.end() == 0
    assert "? ring_bell" in shown
    assert "(external_side_effect)" in shown
    assert "│ times  7\n" in shown
    assert f"approvals approve {short}\n" in shown


def test_a_call_whose_tool_was_not_named_is_shown_as_it_is_recorded(
    demiurge: Any, terminal: Callable[..., Terminal]
) -> None:
    asked = ask(demiurge, 7)
    screen = terminal("approvals", "show", asked)
    screen.expect('"arguments_json": ')
    assert screen.end() == 0


def test_a_terminal_shows_a_question_with_the_commands_that_answer_it(
    demiurge: Any, terminal: Callable[..., Terminal], provider: Provider
) -> None:
    provider.say(Provider.answer(Provider.call("core__ask_user", {"question": "Which bell?"}, "q1")))
    assert demiurge("chat", "--message", "Ring.").status == 1
    [waiting] = demiurge("--json", "approvals", "ls").document["approvals"]
    screen = terminal("approvals", "show", waiting["id"])
    shown = screen.expect("approvals reject " + waiting["id"][:12])
    assert screen.end() == 0
    assert "Which bell?" in shown
    assert f"approvals answer {waiting['id'][:12]} TEXT" in shown


def test_others_are_decided_as_before(demiurge: Any, world: Path) -> None:
    sound, _ = ask(demiurge, 1), ask(demiurge, 2)
    damage_call(demiurge, world, 2)
    assert demiurge("approvals", "approve", sound, "--tools", "bell_tools").status == 0


def test_a_unit_whose_records_are_damaged_is_named(demiurge: Any, world: Path) -> None:
    ask(demiurge, 2)
    state = demiurge("--json", "journal", "tail").document
    intent = next(record for record in state["records"] if record["kind"] == "intent")
    damage(world, bytes.fromhex(intent["hash"]), 40)
    listed = demiurge("approvals", "ls")
    assert listed.status == 1
    assert "Nothing waits" not in listed.out
    assert "demiurge/Calls@1/b2" in listed.err


def test_the_arguments_of_a_call_that_waits_are_not_erased(demiurge: Any) -> None:
    waiting = ask(demiurge, 2)
    state = demiurge("state", "get", "demiurge/Calls@1", "--key", "b2").document
    refused = demiurge("--json", "erase", state["call_ref"], "--why", "a secret was in it")
    assert (refused.status, refused.document["error"]["code"]) == (1, "busy")
    assert [asked["id"] for asked in demiurge("--json", "approvals", "ls").document["approvals"]] == [waiting]


def test_a_waiting_call_with_erased_arguments_is_listed_with_that_reason(demiurge: Any, world: Path) -> None:
    """As an earlier version let it happen."""
    waiting = ask(demiurge, 2)
    state = demiurge("state", "get", "demiurge/Calls@1", "--key", "b2").document
    with closing(SqliteStore.open(world)) as store:
        store.erase([state["call_ref"]])
    listed = demiurge("--json", "approvals", "ls")
    assert listed.status == 1
    [asked] = listed.document["approvals"]
    assert asked["id"] == waiting
    assert "erased" in asked["damaged"]


def test_a_call_is_approved_with_other_arguments(demiurge: Any, world: Path) -> None:
    asked = ask(demiurge, 7)
    tools = ("--tools", "bell_tools")
    wrong = demiurge("approvals", "approve", asked, "--arguments", '{"times": "many"}', *tools)
    assert wrong.status == 1
    assert "do not fit the schema of ring_bell: times: must be an integer" in wrong.err
    done = demiurge("--json", "approvals", "approve", asked, "--arguments", '{"times": 1}', *tools)
    assert done.status == 0, done.err
    assert done.document["call"]["ok"] is True
    ref = demiurge("state", "get", "demiurge/Calls@1", "--key", "b7").document["outcome"]["result_ref"]
    told = demiurge("blob", "get", ref, "--raw").out
    assert '{\\"times\\": 7}' in told
    assert '{\\"times\\":1}' in told
    assert demiurge("approvals", "ls").out.startswith("Nothing waits")


def test_a_standing_rule_is_made_listed_explained_and_ended(demiurge: Any, world: Path, provider: Provider) -> None:
    tools = ("--tools", "bell_tools")

    def ring(times: int) -> Any:
        call = Provider.call("ring_bell", {"times": times}, f"c{times}")
        provider.say(Provider.answer(call), Provider.answer(Provider.text("Rang.")))
        return demiurge("--json", "chat", "--message", "Ring.", *tools).document

    [asked] = ring(1)["approvals"]
    wrong = demiurge("approvals", "allow", asked, "--any", "bells", *tools)
    assert "has no argument 'bells'" in wrong.err
    made = demiurge("--json", "approvals", "allow", asked, "--any", "times", "--count", "3", *tools)
    assert made.status == 0, made.err
    rule = made.document["rule"]
    assert ring(2)["status"] == "done"
    [listed] = demiurge("--json", "approvals", "rules").document["rules"]
    assert (listed["id"], listed["left"], listed["pattern_json"]) == (rule, 1, '{"times":{"any":true}}')
    explained = demiurge("policy", "explain", "ring_bell", *tools)
    assert f"The standing rule {rule[:12]} by user allows 1 more call of" in explained.out
    assert rule[:12] in demiurge("approvals", "rules").out
    assert demiurge("approvals", "forget", rule[:12]).status == 0
    assert "No standing rule holds." in demiurge("approvals", "rules").out
    assert demiurge("approvals", "forget", rule[:12]).status == 1
    assert ring(3)["status"] == "awaiting_approval"


def test_the_trace_of_a_changed_call_says_so(demiurge: Any, provider: Provider) -> None:
    call = Provider.call("ring_bell", {"times": 7}, "c7")
    provider.say(Provider.answer(call), Provider.answer(Provider.text("Rang.")))
    tools = ("--tools", "bell_tools")
    [asked] = demiurge("--json", "chat", "--message", "Ring.", *tools).document["approvals"]
    done = demiurge("approvals", "approve", asked, "--arguments", '{"times": 1}', *tools)
    assert done.status == 0, done.err
    traced = demiurge("trace", "--chat", "main").out
    assert "approve by user, with changed arguments" in traced
    assert "changed by user" in traced
    assert "denied" not in traced
    assert "Waits for" not in traced
