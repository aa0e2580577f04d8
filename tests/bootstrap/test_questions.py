"""The model asks a person a question: it waits for as long as it takes, a person alone answers it, and once."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.question_child import ANSWER, opened
from tests.provider import Provider, serving

from demiurge import ToolEffect, ToolPolicy, World
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.policy_rule import ToolPolicyRule
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.history.backtest import backtest
from demiurge.world.history.trace import lineage, trace

ASK = "core__ask_user"
WHERE = {"question": "Where to?", "choices": ["Rome", "Oslo"]}
CANARY = "canary-9e41"
ANNA, BEN = Caller("anna", "", ("approver",)), Caller("ben", "", ("approver",))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "w"


async def asked(world: World, provider: Provider, arguments: Mapping[str, Any] = WHERE, chat: str = "trip") -> str:
    """Has the model ask a question. Returns the id under which it waits."""
    provider.say(Provider.answer(Provider.call(ASK, arguments, "call_0")), Provider.answer(Provider.text("Booked.")))
    reply = await world.chat(chat).send("Book a trip.")
    assert reply.status == "awaiting_approval"
    [waiting] = reply.approvals
    return waiting


def records(world: World, kind: str, chat: str = "trip") -> list[Any]:
    return [record for record in world.journal.read(f"demiurge/Demiurge@1/{chat}") if record.kind == kind]


def told(provider: Provider) -> str:
    """Returns the result of its call that the model got with the last request."""
    [output] = [item for item in provider.seen[-1]["input"] if item.get("type") == "function_call_output"]
    assert output["call_id"] == "call_0"
    return str(output["output"])


async def whole(world: World) -> None:
    assert world.journal.verify().ok
    assert (await world.replay(check=True))["ok"]


async def test_a_persons_answer_is_the_result_of_the_call(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        [shown] = await world.approvals()
        assert shown["asks"] == {"question": "Where to?", "choices": ["Rome", "Oslo"], "allow_other": True}
        assert (shown["tool"], shown["expires_ns"], shown["tool_call_id"]) == (ASK, None, "call_0")
        await world.answer(waiting, "Oslo")
        await world.settle()
        reply = await world.chat("trip").reply()
        assert (reply.status, reply.text) == ("done", "Booked.")
        assert told(provider) == 'The person answered.\n\n{"answer":"Oslo","choice":1}'
        [intent] = [r for r in records(world, "intent") if r.body["kind"] == "tool.call"]
        assert intent.body["admitted"] == {
            "by": "tool",
            "rule": f"{ASK} waits for a person",
            "verdict": "require_approval",
        }
        [decision] = records(world, "approval")
        assert (decision.body["verdict"], decision.body["by"]) == ("answer", "user")
        assert json.loads(world.blobs.get(Ref(decision.body["answer_ref"]))) == {"answer": "Oslo", "choice": 1}
        [receipt] = [r for r in records(world, "receipt") if r.body["intent"] == intent.body["id"]]
        assert receipt.body["payload"]["ok"]
        assert json.loads(world.blobs.get(Ref(receipt.body["payload"]["view_ref"]))) == {"choice": 1}
        assert await world.doubts() == []
        await whole(world)


async def test_nothing_was_attempted_for_an_answer(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        await world.answer(await asked(world, provider), "Oslo")
        await world.settle()
        asking, question, _ = [record.body["id"] for record in records(world, "intent")]
    with sqlite3.connect(folder / "journal.db") as journal:
        begun = {row[0] for row in journal.execute("SELECT intent FROM attempt")}
    assert asking in begun
    assert question not in begun


async def test_words_of_ones_own_are_an_answer_unless_the_question_takes_only_its_choices(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        for wrong in ("", "  \n", "x" * 8001):
            with pytest.raises(InvalidValue) as error:
                await world.answer(waiting, wrong)
            assert error.value.code == "bad_answer"
        await world.answer(waiting, "Neither: Lima")
        await world.settle()
        assert told(provider).endswith('{"answer":"Neither: Lima","choice":null}')
        waiting = await asked(world, provider, {**WHERE, "allow_other": False}, "strict")
        with pytest.raises(InvalidValue):
            await world.answer(waiting, "rome")
        await world.answer(waiting, "Rome")
        await world.settle()
        assert told(provider).endswith('{"answer":"Rome","choice":0}')


@pytest.mark.parametrize(
    "wrong",
    [
        {"question": " "},
        {"question": "x" * 2001},
        {"question": "Where?", "choices": ["Rome"]},
        {"question": "Where?", "choices": ["Rome", "Rome"]},
        {"question": "Where?", "choices": ["Rome", "x" * 201]},
        {"question": "Where?", "choices": [str(number) for number in range(9)]},
        {"question": "Where?", "deadline": 3},
    ],
)
async def test_a_question_of_the_wrong_form_is_refused_and_asks_nobody(
    wrong: dict[str, Any], provider: Provider, folder: Path
) -> None:
    provider.say(Provider.answer(Provider.call(ASK, wrong, "call_0")), Provider.answer(Provider.text("Never mind.")))
    async with opened(folder, provider.url) as world:
        reply = await world.chat("trip").send("Book a trip.")
        assert (reply.status, reply.text) == ("done", "Never mind.")
        assert "validation" in told(provider)
        assert await world.approvals() == []


async def test_a_rejection_tells_the_model_why(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        await world.decide(await asked(world, provider), approve=False, reason="Ask my assistant.")
        await world.settle()
        assert "approval_rejected" in told(provider)
        assert "Ask my assistant." in told(provider)


async def test_an_approval_is_no_answer_and_an_answer_is_no_approval(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        for attempt in (
            world.decide(waiting, approve=True),
            world.decide(waiting, approve=True, arguments_json='{"question": "Whither?"}'),
            world.standing_rules.allow(waiting, count=3),
        ):
            with pytest.raises(UsageError) as error:
                await attempt
            assert error.value.code == "answer_needed"
        with pytest.raises(UsageError) as error:
            await world.answer(waiting, content={"answer": "Rome"})
        assert error.value.code == "bad_decision"
        with pytest.raises(NotFound):
            await world.answer("00", "Rome")
        assert records(world, "approval") == []
        write = Provider.call("workspace__write", {"path": "a.txt", "text": "hello"}, "call_w")
        provider.say(Provider.answer(write), Provider.answer(Provider.text("Written.")))
        [writing] = (await world.chat("other").send("Write it.")).approvals
        with pytest.raises(UsageError) as error:
            await world.answer(writing, "yes")
        assert error.value.code == "no_question"


async def test_a_question_that_this_version_cannot_read_is_not_answered(
    provider: Provider, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_arguments_json: str) -> Any:
        raise ToolValidationError("has a form of another version")

    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        for reader in ("given_answer", "waiting_calls"):
            monkeypatch.setattr(f"demiurge.bootstrap.backend.{reader}.read_question", refuse)
        [shown] = await world.approvals()
        assert (shown["asks"], shown["tool"]) == (None, ASK)
        with pytest.raises(Conflict, match="reject it") as error:
            await world.answer(waiting, "Rome")
        assert error.value.code == "bad_question"
        await world.decide(waiting, approve=False)
        await world.settle()
        assert "approval_rejected" in told(provider)


async def test_no_standing_rule_and_no_policy_answers_a_question(provider: Provider, folder: Path) -> None:
    policies = (
        ToolPolicy((ASK,)),
        ToolPolicy((ASK,), require_approval_for_effects=(ToolEffect.READ_ONLY,)),
        ToolPolicy((), rules=(ToolPolicyRule("mine", roles=("user",), allowed_tools=(ASK,)),)),
    )
    for number, policy in enumerate(policies):
        async with opened(folder, provider.url, policy=policy) as world:
            waiting = await asked(world, provider, chat=f"chat{number}")
            await world.answer(waiting, "Rome")
            await world.settle()
            assert told(provider).endswith('{"answer":"Rome","choice":0}')


async def test_a_policy_may_deny_the_tool_before_and_after_the_question(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
    async with opened(folder, provider.url, policy=ToolPolicy(())) as world:
        await world.answer(waiting, "Rome")
        await world.settle()
        [call] = (await world.chat("trip").reply()).tool_calls
        assert (call.ok, call.error_code) == (False, "policy_denied")
        provider.say(Provider.answer(Provider.call(ASK, WHERE, "call_0")), Provider.answer(Provider.text("So be it.")))
        assert (await world.chat("other").send("Ask me.")).status == "done"
        assert "policy_denied" in told(provider)


async def test_the_policys_approvers_alone_answer(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url, policy=ToolPolicy((ASK,), approvers=("lead",))) as world:
        waiting = await asked(world, provider)
        for caller in (Caller("user", "", ("user",)), ANNA):
            with pytest.raises(UsageError) as error:
                await world.acting_as(caller).answer(waiting, "Rome")
            assert error.value.code == "not_an_approver"
        await world.acting_as(Caller("lee", "", ("approver", "lead"))).answer(waiting, "Rome")
        await world.settle()
        assert records(world, "approval")[0].body["by"] == "lee"
        assert told(provider).endswith('{"answer":"Rome","choice":0}')


async def test_of_two_answers_the_first_counts_and_the_other_person_is_told(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        anna, ben = world.acting_as(ANNA), world.acting_as(BEN)
        results = await asyncio.gather(
            anna.answer(waiting, "Rome"), ben.answer(waiting, "Oslo"), return_exceptions=True
        )
        [lost] = [result for result in results if result is not None]
        assert isinstance(lost, Conflict)
        won, said = (anna, "Rome") if results[0] is None else (ben, "Oslo")
        assert (lost.code, lost.details["by"], lost.details["verdict"]) == ("decided", won.caller.actor, "answered")
        await won.answer(waiting, said)  # the same once more changes nothing
        with pytest.raises(Conflict):
            await won.answer(waiting, "Lima")
        with pytest.raises(Conflict) as error:
            await world.decide(waiting, approve=False)
        assert error.value.details["verdict"] == "answered"
        await world.settle()
        assert f'"answer":"{said}"' in told(provider)
        assert len(records(world, "approval")) == 1


async def test_a_question_waits_over_restarts_and_archives(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
    async with opened(folder, provider.url) as world:
        archived = await world.archive(keep_days=0)
        assert archived.records > 0
        [shown] = await world.approvals()
        assert shown["id"] == waiting
    async with opened(folder, provider.url) as world:
        await world.answer(waiting, "Rome")
        await world.settle()
        assert (await world.chat("trip").reply()).text == "Booked."
        await whole(world)


async def test_a_question_waits_in_a_fork_too_and_each_world_has_its_own_answer(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        await world.fork(folder.parent / "fork")
        await world.answer(waiting, "Rome")
        await world.settle()
        assert '"answer":"Rome"' in told(provider)
    provider.say(Provider.answer(Provider.text("Booked in the fork.")))
    async with opened(folder.parent / "fork", provider.url) as forked:
        assert [shown["id"] for shown in await forked.approvals()] == [waiting]
        await forked.answer(waiting, "Oslo")
        await forked.settle()
        assert '"answer":"Oslo"' in told(provider)
        assert (await forked.chat("trip").reply()).text == "Booked in the fork."
        assert await forked.doubts() == []
        await whole(forked)


async def test_a_question_waits_on_when_a_loss_is_accepted(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
    (folder / "digest.key").unlink()
    async with opened(folder, provider.url, accept_losses="the disk broke") as world:
        assert world.accepted is not None
        assert world.accepted.lost
        assert await world.doubts() == []
        await world.answer(waiting, "Rome")
        await world.settle()
        assert told(provider).endswith('{"answer":"Rome","choice":0}')
        await whole(world)


async def test_an_answer_can_be_erased_with_the_message_that_told_it_to_the_model(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        await world.answer(await asked(world, provider), "My number is 0123456789.")
        await world.settle()
        [decision] = records(world, "approval")
        erased = await world.erase(decision.body["answer_ref"], "It is private.")
        [told_model] = erased.quotes
        assert (await world.erase(told_model.name, "It is private.")).done
        assert world.journal.verify().ok
        with pytest.raises(NotFound):
            world.blobs.get(Ref(decision.body["answer_ref"]))
    assert not any(b"0123456789" in path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_question_and_answer_are_in_no_log_no_event_and_no_public_record(
    provider: Provider, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[Any] = []
    async with opened(folder, provider.url, emit=shown.append) as world:
        waiting = await asked(world, provider, {"question": f"Is it {CANARY}?", "choices": [f"{CANARY}-a", "b"]})
        await world.answer(waiting, f"{CANARY}-a")
        await world.settle()
        assert CANARY in told(provider)
        assert {type(event).__name__ for event in shown} >= {"ToolCallStart", "ToolCallResult"}
        viewer = world.acting_as(Caller("vera", "", ("viewer",)))
        chat = viewer.chat("trip")
        said = (list(viewer.journal.views()), await chat.messages(), await chat.reply())
        assert CANARY not in repr((shown, said))
        with pytest.raises(UsageError):
            await viewer.approvals()
    assert CANARY not in caplog.text


async def test_the_trace_and_the_backtest_of_a_question_say_who_answered_and_that_no_rule_asked(
    provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        await world.acting_as(ANNA).answer(await asked(world, provider), "Oslo")
        await world.settle()
        found = list(world.journal.read("demiurge/Demiurge@1/trip"))
        lines = trace(lineage(found, (found[0].unit, 3)))
        assert any(line.says == "answer by anna" for line in lines)
        tested = backtest(found, lambda ref: world.blobs.get(Ref(ref)), ToolPolicy((ASK,)))
        assert (tested.calls, tested.changes) == (1, [])


async def test_cancelling_the_turn_ends_the_question(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
        await world.chat("trip").cancel()
        await world.settle()
        assert await world.approvals() == []
        assert (await world.chat("trip").reply()).error_code == "cancelled"
        with pytest.raises(Conflict):
            await world.answer(waiting, "Rome")
        await whole(world)


async def test_a_call_without_a_chat_asks_too(provider: Provider, folder: Path) -> None:
    async with opened(folder, provider.url) as world:
        made = await world.call(ASK, json.dumps(WHERE), "mine")
        assert made.status == "awaiting_approval"
        await world.answer(made.approval or "", "Rome")
        made = await world.call(ASK, json.dumps(WHERE), "mine")
        assert (made.status, made.result) == ("done", {"choice": 0})


POINTS = (
    "unit.advanced=kill",
    "journal.before_rows=kill",
    "journal.before_commit=kill",
    "journal.after_commit=kill",
    "unit.committed=kill",
    "unit.acknowledged=kill",
    "effect.performed=kill",
    "effect.received=kill",
)


@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_leaves_the_question_waiting_or_answered_and_the_model_gets_one_answer(
    point: str, provider: Provider, folder: Path
) -> None:
    async with opened(folder, provider.url) as world:
        waiting = await asked(world, provider)
    killed = await run_program("question_child", folder, provider.url, faults=point)
    assert killed.returncode != 0
    async with opened(folder, provider.url) as world:
        assert len(await world.approvals()) + len(records(world, "approval")) == 1
        await world.answer(waiting, ANSWER)
        await world.settle()
        assert (await world.chat("trip").reply()).status == "done"
        assert told(provider).endswith('{"answer":"Rome","choice":0}')
        assert len(records(world, "approval")) == 1
        assert await world.doubts() == []
        await whole(world)
