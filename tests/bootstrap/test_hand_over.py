"""A process that owns a world hands it over to one that has code which it lacks, and goes on as one that joined."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.world_process import LETTER, OTHER
from tests.bootstrap.world_processes import LONGEST_S, Refused, WorldProcess, world_process
from tests.provider import Provider, serving

from demiurge.bootstrap.manifest import Definitions
from demiurge.stores import SqliteStore


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "w"


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A folder with the shipped definitions and one module more, for which only `notes` has the code."""
    return str(definitions(tmp_path / "other", OTHER))


@pytest.fixture
def shipped(tmp_path: Path) -> str:
    return str(definitions(tmp_path / "shipped"))


def definitions(folder: Path, *modules: str) -> Path:
    given = Definitions.shipped()
    module = next(part for part in given.definitions if part["$kind"] == "defmodule")
    parts = [*given.definitions, *({**module, "name": name} for name in modules), {"$kind": "manifest", **given.root}]
    folder.mkdir()
    (folder / "all.json").write_bytes(json.dumps(parts, default=dict).encode())
    return folder


def extension(folder: Path, module: str) -> Path:
    """A folder that extends the shipped app by a module."""
    like = next(part for part in Definitions.shipped().definitions if part["$kind"] == "defmodule")
    folder.mkdir()
    parts = [{**like, "name": module}, {"$kind": "manifest", "extends": "demiurge"}]
    (folder / "all.json").write_bytes(json.dumps(parts, default=dict).encode())
    return folder


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition that another process brings about."""
    ends = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def called(folder: Path) -> list[str]:
    file = folder.parent / "called"
    return file.read_text().splitlines() if file.exists() else []


def let_go(folder: Path, name: str) -> None:
    (folder.parent / f"let {name} go").touch()


def the_log(process: WorldProcess) -> list[str]:
    return [how for _, how in process.ask("seen")["log"]]


def test_the_owner_hands_over_to_the_process_that_has_the_code(folder: Path, other: str, shipped: str) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "notes") as asker:
        owner.ask("create", chat="main")
        before = owner.ask("seen")
        assert before["owned"]
        asker.ask("set_manifest", folder=other, actor="user:ada")
        after = asker.ask("seen")
        assert (after["owned"], after["joined"]) == (True, False)
        assert after["log"] == [["user", "opened with"], ["user:ada", "manifest set"]]
        former = owner.ask("seen")
        assert (former["owned"], former["joined"], former["read_only"]) == (False, True, None)
        assert former["manifest"] == after["manifest"] != before["manifest"]
        owner.ask("create", chat="asked of the new owner")
        assert owner.ask("whole")
        asker.leave()
        assert "it lacks ex/Other@1" in refusal(owner, "create", chat="nobody has the code").args[0]
        assert "it lacks ex/Other@1" in owner.ask("seen")["read_only"]
        assert owner.ask("whole")
        with world_process(folder, "notes") as asker:
            asker.ask("set_manifest", folder=shipped)
            asker.leave()
            owner.ask("create", chat="it has the code again")
            assert owner.ask("seen")["owned"]
            assert owner.ask("whole")


def test_an_extension_with_code_that_the_owner_lacks_goes_to_the_process_that_has_it(
    folder: Path, tmp_path: Path
) -> None:
    own = str(extension(tmp_path / "own", OTHER))
    with world_process(folder, "bells") as owner, world_process(folder, "notes") as asker:
        owner.ask("create", chat="main")
        asker.ask("set_manifest", folder=own)
        assert (asker.ask("seen")["owned"], owner.ask("seen")["joined"]) == (True, True)
        owner.ask("create", chat="asked of the new owner")
        assert owner.ask("whole")
        asker.leave()
        assert "it lacks ex/Other@1" in refusal(owner, "create", chat="nobody has the code").args[0]
    with SqliteStore.open(folder) as store:
        kept = json.loads(store.get_meta("definitions") or "")
    assert [part["name"] for part in kept["definitions"]] == [OTHER]


def test_a_former_owner_that_only_reads_sets_a_manifest_for_which_it_has_the_code(
    folder: Path, other: str, shipped: str
) -> None:
    with world_process(folder, "bells") as owner:
        owner.ask("create", chat="main")
        with world_process(folder, "notes") as asker:
            asker.ask("set_manifest", folder=other)
            asker.leave()
        assert refusal(owner, "create", chat="nobody has the code").code == "no_code"
        refused = refusal(owner, "set_manifest", folder=shipped, actor="chief:bo", role="chief")
        assert refused.code == "role_missing"
        assert the_log(owner) == ["opened with", "manifest set"]
        owner.ask("set_manifest", folder=shipped)
        assert owner.ask("seen")["owned"]
        owner.ask("create", chat="it has the code")
        assert the_log(owner) == ["opened with", "manifest set", "manifest set"]
        assert owner.ask("whole")


def refusal(process: WorldProcess, do: str, **given: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        process.ask(do, **given)
    return refused.value


def test_the_world_goes_to_and_fro(folder: Path, other: str, tmp_path: Path) -> None:
    letter = str(definitions(tmp_path / "letter", LETTER))
    with world_process(folder, "letters") as letters, world_process(folder, "notes") as notes:
        letters.ask("create", chat="main")
        for _ in range(3):
            notes.ask("set_manifest", folder=other)
            assert (notes.ask("seen")["owned"], letters.ask("seen")["joined"]) == (True, True)
            letters.ask("set_manifest", folder=letter)
            assert (letters.ask("seen")["owned"], notes.ask("seen")["joined"]) == (True, True)
        assert the_log(notes) == ["opened with", *["manifest set"] * 6]
        assert notes.ask("whole")


def test_only_a_user_may_ask(folder: Path, other: str) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "notes") as asker:
        owner.ask("create", chat="main")
        refused = refusal(asker, "set_manifest", folder=other, actor="chief:bo", role="chief")
        assert refused.code == "role_missing"
        assert owner.ask("seen")["owned"]
        assert the_log(owner) == ["opened with"]


def test_a_process_that_lacks_the_code_too_asks_for_nothing(folder: Path, other: str) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "bells") as asker:
        owner.ask("create", chat="main")
        refused = refusal(asker, "set_manifest", folder=other)
        assert (refused.code, "lacks the code of ex/Other@1" in refused.args[0]) == ("no_code", True)
        assert owner.ask("seen")["owned"]
        assert the_log(owner) == ["opened with"]


def test_calls_that_run_end_before_the_world_is_handed_over(folder: Path, other: str) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "notes") as asker:
        ringing = owner.begin("call", tool="ring_bell", arguments={"bell": "great"})
        until(lambda: called(folder) == ["great begins"])
        asking = asker.begin("set_manifest", folder=other)
        until(lambda: owner.ask("pauses"))
        length = owner.ask("length")
        queued = owner.begin("call", tool="ring_bell", arguments={"bell": "small"})
        let_go(folder, "small")
        until(lambda: owner.ask("length") > length)
        assert not asker.is_done(asking)
        assert called(folder) == ["great begins"], "no further call begins"
        let_go(folder, "great")
        asker.end(asking)
        assert owner.end(ringing)["status"] == owner.end(queued)["status"] == "done"
        assert called(folder) == ["great begins", "great ends", "small begins", "small ends"]
        assert asker.ask("seen")["owned"]
        assert owner.ask("doubts") == []
        assert owner.ask("whole")


def test_the_calls_of_one_answer_run_once_each_on_both_sides_of_a_hand_over(
    folder: Path, other: str, provider: Provider
) -> None:
    calls = [provider.call("ring_bell", {"bell": bell}, bell) for bell in ("great", "small")]
    provider.say(provider.answer(*calls), provider.answer(provider.text("Rung.")))
    with world_process(folder, "bells", provider.url) as owner, world_process(folder, "notes", provider.url) as asker:
        saying = owner.begin("say", chat="main", text="Ring both.")
        until(lambda: called(folder) == ["great begins"])
        asking = asker.begin("set_manifest", folder=other)
        until(lambda: owner.ask("pauses"))
        let_go(folder, "great")
        asker.end(asking)
        until(lambda: called(folder) == ["great begins", "great ends", "small begins"])
        let_go(folder, "small")
        assert owner.end(saying) == {"status": "done", "text": "Rung.", "code": None}
        assert called(folder) == ["great begins", "great ends", "small begins", "small ends"]
        assert owner.ask("doubts") == []
        assert owner.ask("whole")


def test_a_call_that_runs_for_too_long_keeps_the_world_where_it_is(folder: Path, other: str) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "notes") as asker:
        owner.ask("limit", seconds=0.2)
        ringing = owner.begin("call", tool="ring_bell", arguments={"bell": "great"})
        until(lambda: called(folder) == ["great begins"])
        refused = refusal(asker, "set_manifest", folder=other)
        assert (refused.code, "ring_bell (demiurge/" in refused.args[0]) == ("calls_running", True)
        assert owner.ask("seen")["owned"]
        let_go(folder, "small")
        assert owner.ask("call", tool="ring_bell", arguments={"bell": "small"})["status"] == "done"
        let_go(folder, "great")
        assert owner.end(ringing)["status"] == "done"
        assert owner.ask("doubts") == []
        asker.ask("set_manifest", folder=other)
        assert asker.ask("seen")["owned"]


def test_a_call_that_only_reads_runs_again_at_the_next_owner(folder: Path, other: str) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "notes") as asker:
        owner.ask("limit", seconds=0.2)
        looking = owner.begin("call", tool="look_around", arguments={"place": "here"})
        until(lambda: called(folder) == ["here begins"])
        asker.ask("set_manifest", folder=other)
        until(lambda: called(folder) == ["here begins"] * 2)
        let_go(folder, "here")
        assert owner.end(looking)["status"] == "done"
        assert owner.ask("doubts") == []
        assert owner.ask("whole")


def test_an_asker_that_goes_away_leaves_the_world_where_it_is(folder: Path, other: str) -> None:
    with world_process(folder, "bells") as owner:
        ringing = owner.begin("call", tool="ring_bell", arguments={"bell": "great"})
        until(lambda: called(folder) == ["great begins"])
        with world_process(folder, "notes") as asker:
            asker.begin("set_manifest", folder=other)
            until(lambda: owner.ask("pauses"))
        until(lambda: not owner.ask("pauses"))
        let_go(folder, "great")
        assert owner.end(ringing)["status"] == "done"
        let_go(folder, "small")
        assert owner.ask("call", tool="ring_bell", arguments={"bell": "small"})["status"] == "done"
        assert owner.ask("seen")["owned"]
        assert the_log(owner) == ["opened with"]


def test_turns_in_progress_of_both_processes_end(folder: Path, other: str, provider: Provider) -> None:
    said = provider.answer(provider.text("Done."), held=True)
    provider.say(said)
    with world_process(folder, "bells", provider.url) as owner, world_process(folder, "notes", provider.url) as asker:
        frames = owner.begin("watch", ends=2)
        ours = owner.begin("say", chat="ours", text="Think.")
        theirs = asker.begin("say", chat="theirs", text="Think.")
        until(lambda: len(provider.seen) == 2)
        asking = asker.begin("set_manifest", folder=other)
        until(lambda: owner.ask("pauses"))
        provider.let_go.set()
        asker.end(asking)
        for process, number in ((owner, ours), (asker, theirs)):
            assert process.end(number) == {"status": "done", "text": "Done.", "code": None}
        assert len(provider.seen) == 2, "each answer is asked for once"
        assert {unit for unit, _, _ in owner.end(frames)} == {"demiurge/Demiurge@1/ours", "demiurge/Demiurge@1/theirs"}
        assert (asker.ask("seen")["owned"], owner.ask("seen")["joined"]) == (True, True)
        assert owner.ask("say", chat="ours", text="Again.") == {"status": "done", "text": "Done.", "code": None}
        assert owner.ask("doubts") == []
        assert owner.ask("whole")


def test_an_answer_that_takes_too_long_is_asked_for_again_by_the_next_owner(
    folder: Path, other: str, provider: Provider
) -> None:
    provider.say(provider.answer(provider.text("Late."), held=True), provider.answer(provider.text("Done.")))
    with world_process(folder, "bells", provider.url) as owner, world_process(folder, "notes", provider.url) as asker:
        owner.ask("limit", seconds=0.2)
        frames = owner.begin("watch", ends=1)
        following = owner.begin("follow", length=1000)
        ours = owner.begin("say", chat="ours", text="Think.")
        until(lambda: len(provider.seen) == 1)
        asker.ask("set_manifest", folder=other)
        assert owner.end(ours) == {"status": "done", "text": "Done.", "code": None}
        seen = owner.end(frames)
        assert seen[0][1:] == [0, "began"]
        assert [kind for _, _, kind in seen].count("closed") == 1
        assert not owner.is_done(following)
        assert owner.ask("whole")


def test_a_turn_that_nobody_waits_for_goes_on_at_the_next_owner(folder: Path, other: str, provider: Provider) -> None:
    provider.say(provider.answer(provider.text("Late."), held=True), provider.answer(provider.text("Done.")))
    with world_process(folder, "bells", provider.url) as owner, world_process(folder, "notes", provider.url) as asker:
        owner.ask("limit", seconds=0.2)
        owner.ask("take_in", chat="ours", text="Think.")
        until(lambda: len(provider.seen) == 1)
        asker.ask("set_manifest", folder=other)
        until(lambda: owner.ask("reply", chat="ours") == {"status": "done", "text": "Done."})
        assert owner.ask("whole")


def test_the_policy_and_the_prompt_that_were_named_stay(folder: Path, other: str) -> None:
    with world_process(folder, "prompted") as owner, world_process(folder, "notes") as asker:
        owner.ask("create", chat="main")
        asker.ask("set_manifest", folder=other)
        seen = asker.ask("seen")
        assert (seen["owned"], seen["prompt"], seen["catalog"]) == (True, "Be brief.", ["look_around", "ring_bell"])


def test_an_owner_that_lacks_a_tool_hands_over_to_the_process_that_lists_it(folder: Path) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "listing") as asker:
        owner.ask("create", chat="main")
        assert asker.ask("refresh")
        seen = asker.ask("seen")
        assert (seen["owned"], [how for _, how in seen["log"]]) == (True, ["opened with", "tools refreshed"])
        assert owner.ask("seen")["joined"]
        asker.leave()
        assert "it lacks the tool count_sheep" in refusal(owner, "create", chat="nobody has it").args[0]


def test_an_owner_that_lacks_the_tools_named_with_a_manifest_hands_over(folder: Path, shipped: str) -> None:
    with world_process(folder, "looking") as owner:
        owner.ask("create", chat="main")
        with world_process(folder, "bells", manifest=shipped) as asker:
            seen = asker.ask("seen")
            assert (seen["owned"], seen["catalog"]) == (True, ["look_around", "ring_bell"])
            assert (owner.ask("seen")["catalog"], owner.ask("seen")["joined"]) == (seen["catalog"], True)


def test_a_process_that_takes_the_lock_in_between_is_asked_too(folder: Path, other: str) -> None:
    with (
        world_process(folder, "bells") as owner,
        world_process(folder, "notes") as asker,
        world_process(folder, "bells") as third,
    ):
        owner.ask("create", chat="main")
        following = third.begin("follow", length=1000)  # so it notices at once that the owner goes
        asker.ask("comes_second")
        asker.ask("set_manifest", folder=other)
        assert [process.ask("seen")["owned"] for process in (owner, third, asker)] == [False, False, True]
        third.ask("create", chat="another")
        assert not third.is_done(following)
        assert the_log(third) == ["opened with", "manifest set"]
        assert third.ask("whole")


# -- kill -9 ----------------------------------------------------------------------------------------------------------

BEFORE = "hand_over.before_request"
POINTS = {
    BEFORE: "asker",
    "hand_over.drained": "owner",
    "hand_over.released": "owner",
    "hand_over.taken": "asker",
    "manifest.kept": "asker",
    "manifest.stored": "asker",
    "manifest.recorded": "asker",
}
"""The fault points of a hand-over in their order, each with the process that comes to it."""


def kills() -> list[Any]:
    """Every point with each process as the victim; those where a process kills the other one are long tests."""
    return [
        pytest.param(point, victim, marks=[] if victim == there else pytest.mark.full)
        for point, there in POINTS.items()
        for victim in ("owner", "asker")
    ]


@pytest.mark.parametrize(("point", "victim"), kills())
def test_a_process_that_is_killed_during_a_hand_over_loses_nothing_and_doubles_nothing(
    folder: Path, other: str, point: str, victim: str
) -> None:
    with world_process(folder, "bells") as owner, world_process(folder, "notes") as asker:
        processes = {"owner": owner, "asker": asker}
        owner.begin("call", tool="ring_bell", arguments={"bell": "great"})
        until(lambda: called(folder) == ["great begins"])
        processes[POINTS[point]].ask("kills_at", point=point, pid=processes[victim].pid)
        if point == BEFORE:  # the owner has not been asked yet, so its calls may run
            let_go(folder, "great")
            until(lambda: called(folder) == ["great begins", "great ends"])
            until(lambda: owner.ask("doubts") == [])
            owner.ask("call", tool="ring_bell", arguments={"bell": "great"})
        asking = asker.begin("set_manifest", folder=other)
        if point != BEFORE:
            until(lambda: owner.ask("pauses"))
            length = owner.ask("length")
            owner.begin("call", tool="ring_bell", arguments={"bell": "small"})
            until(lambda: owner.ask("length") > length)
            let_go(folder, "great")
        let_go(folder, "small")
        processes[victim].child.wait(LONGEST_S)
        if victim == "owner":
            asker.end(asking)
            assert asker.ask("seen")["owned"]
        with world_process(folder, "notes") as last:
            assert last.ask("call", tool="ring_bell", arguments={"bell": "small"})["status"] == "done"
            assert sorted(called(folder)) == ["great begins", "great ends", "small begins", "small ends"]
            assert last.ask("doubts") == []
            assert last.ask("whole")
            log = the_log(last)
            if victim == "owner" or point == "manifest.recorded":
                assert log == ["opened with", "manifest set"]
            else:
                assert set(log) == {"opened with"}
