"""`demiurge tools propose`, `review`, `test`, the decisions, versions and rollback, by the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Processes, Run
from tests.provider import Provider
from tests.registry.proposals import proposal_of

REVIEW = (
    "--recommend",
    "approve",
    "--sensible",
    "Yes.",
    "--overlaps",
    "No.",
    "--violates",
    "No.",
    "--changes",
    "None.",
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "proposal.json"
    path.write_text(json.dumps(proposal_of()))
    return f"@{path}"


def test_a_user_proposes_the_chief_reviews_and_the_user_approves(demiurge: Run, file: str) -> None:
    made = demiurge("tools", "propose", file, "--json")
    assert made.status == 0, made.err
    pid, digest = made.document["id"], made.document["digest"]
    early = demiurge("tools", "approve", pid, "--read", "--digest", digest, "--json")
    assert (early.status, early.document["error"]["code"]) == (1, "not_reviewed")
    assert "Missing: The Chief of Staff has not reviewed" in demiurge("tools", "review", pid).out
    chief = demiurge("tokens", "add", "chief:maya", "--role", "chief").out.strip()
    reviewed = demiurge("--token", chief, "tools", "review", pid, *REVIEW, "--digest", digest, "--json")
    assert (reviewed.status, reviewed.document["state"]) == (0, "user_decision")
    assert demiurge("--token", chief, "tools", "approve", pid, "--read", "--digest", digest).status == 1
    unread = demiurge("tools", "approve", pid, "--json")
    assert (unread.status, unread.document["error"]["code"]) == (1, "digest_missing")
    assert digest in unread.document["error"]["message"]
    done = demiurge("tools", "approve", pid, "--read", "--digest", digest, "--reason", "It is useful.")
    assert (done.status, "scene_pacer is live in the layer user" in done.out) == (0, True), done.err
    assert demiurge("tools", "show", "scene_pacer", "--json").document["layer"] == "user"
    [version] = demiurge("tools", "history", "scene_pacer", "--json").document["versions"]
    assert (version["version"], version["is_live"]) == (1, True)
    assert "+ Read the scene." in demiurge("tools", "diff", "scene_pacer").out
    again = demiurge("tools", "rollback", "scene_pacer", "1", "--reason", "To go back to the first version.", "--json")
    assert again.status == 0, again.out
    assert demiurge("tools", "diff", again.document["id"]).out == "The two versions are the same.\n"
    assert "recommends to approve" in demiurge("tools", "review", pid).out


def test_an_agent_proposes_over_http_and_may_not_approve(demiurge: Run, process: Processes, file: str) -> None:
    assert demiurge("init").status == 0
    agent = demiurge("tokens", "add", "agent:one", "--role", "agent").out.strip()
    serving = process.start("serve", "--port", "0", "--json")
    assert serving.stdout is not None
    served = ("-w", json.loads(serving.stdout.readline())["url"], "--token", agent, "--json")
    made = demiurge(*served, "tools", "propose", file)
    assert made.status == 0, made.out
    pid, digest = made.document["id"], made.document["digest"]
    tested = demiurge(*served, "tools", "test", pid)
    assert (tested.status, tested.document["passed"]) == (0, True)
    refused = demiurge(*served, "tools", "approve", pid, "--read", "--digest", digest)
    assert (refused.status, refused.document["error"]["code"]) == (1, "role_missing")
    withdrawn = demiurge(*served, "tools", "withdraw", pid, "--digest", digest)
    assert withdrawn.document["state"] == "withdrawn"
    serving.terminate()
    assert process.finish(serving).status == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "file_reader"}',
        '{"id": "File-Reader", "proposalType": "delete", "nothing": 1}',
        '{"id": "core__file_reader", "id": "other"}',
        '{"tool": {"id": "read_file"}}',
    ],
)
def test_a_proposal_for_a_core_tool_is_refused_before_anything_else(demiurge: Run, world: Path, text: str) -> None:
    done = demiurge("tools", "propose", "@-", "--json", stdin=text.encode())
    assert (done.status, done.document["error"]["code"]) == (1, "core_tool_locked")
    assert not world.exists()


def test_a_proposal_whose_text_was_erased_is_shown_and_rejected(demiurge: Run, file: str) -> None:
    made = demiurge("tools", "propose", file, "--json").document
    assert demiurge("erase", made["digest"], "--why", "It was asked for.").status == 0
    shown = demiurge("tools", "review", made["id"])
    assert shown.status == 0, shown.err
    assert "Its text was erased" in shown.out
    rejected = demiurge("tools", "reject", made["id"], "--digest", made["digest"], "--reason", "It is gone.", "--json")
    assert (rejected.document["state"], rejected.document["body"]) == ("rejected", None)


def test_a_hostile_text_does_not_reach_the_terminal(demiurge: Run) -> None:
    words = "Looks fine.\x1b[2J\x1b]0;owned\x07 \u202egnp"
    made = demiurge("tools", "propose", json.dumps(proposal_of(rationale=words * 2)), "--json")
    assert made.status == 0, made.out
    shown = demiurge("tools", "review", made.document["id"]).out
    assert "not passed" in shown
    assert [hidden for hidden in ("\x1b", "\x07", "\u202e") if hidden in shown + made.out] == []


def usage_errors() -> list[tuple[str, ...]]:
    return [
        ("tools", "review", "p0123456789", "--recommend", "approve"),
        ("tools", "review", "p0123456789", "--notes", "x"),
        ("tools", "review", "p0123456789", "--skip"),
        ("tools", "test", "p0123456789", "--case", "a"),
        ("tools", "reject", "p0123456789", "--digest", "sha256:" + "0" * 64),
        ("tools", "rollback", "scene_pacer", "1"),
    ]


@pytest.mark.parametrize("words", usage_errors())
def test_wrong_usage_exits_with_2(demiurge: Run, words: tuple[str, ...]) -> None:
    assert demiurge("init").status == 0
    assert demiurge(*words).status == 2


def test_a_missing_proposal_or_tool_is_named_by_its_code(demiurge: Run) -> None:
    assert demiurge("init").status == 0
    codes: dict[str, Any] = {}
    for words in (("review", "p0123456789"), ("history", "nothing_here"), ("show", "nothing_here")):
        codes[words[0]] = demiurge("tools", *words, "--json").document["error"]["code"]
    assert codes == {"review": "no_proposal", "history": "no_tool", "show": "no_tool"}
    assert demiurge("tools", "proposals").out == "There is no such proposal.\n"


@pytest.mark.parametrize(
    "words",
    [
        ("review", *REVIEW),
        ("review", "--skip", "--reason", "A test."),
        ("test", "--case", "by_eye", "--pass", "--note", "I looked at it."),
    ],
    ids=["review", "skip", "verdict"],
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_judgement_without_a_terminal_takes_the_digest_that_was_read(
    demiurge: Run, file: str, words: tuple[str, ...], form: tuple[str, ...]
) -> None:
    made = demiurge("tools", "propose", file, "--json").document
    unread = demiurge("tools", words[0], made["id"], *words[1:], *form)
    assert unread.status == 1
    assert f"--digest {made['digest']}" in unread.out + unread.err
    if form:
        assert unread.document["error"]["code"] == "digest_missing"
    found = demiurge("tools", "review", made["id"], "--json").document
    assert (found["state"], found["review"], found["verdicts"]) == ("chief_review", None, [])


def test_a_model_reviews_and_the_user_decides(demiurge: Run, provider: Provider, file: str) -> None:
    made = demiurge("tools", "propose", file, "--json").document
    answers = {"sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}
    provider.say(Provider.answer(Provider.text("I approve.")))
    bad = demiurge("tools", "review", made["id"], "--by-model", "--json")
    assert (bad.status, bad.document["error"]["code"]) == (1, "bad_answer")
    shown = demiurge("tools", "review", made["id"]).out
    assert "Review: there is none yet." in shown
    assert "failed, 15 tokens" in shown
    reply = json.dumps({"digest": made["digest"], "recommend": "approve", **answers})
    provider.say(Provider.answer(Provider.text(reply)))
    done = demiurge("tools", "review", made["id"], "--by-model", "--model", "gpt-5-mini")
    assert done.status == 0, done.err
    assert "recommends to approve, by user" in done.out
    assert "with the model gpt-5-mini (openai-responses)" in done.out
    assert demiurge("tools", "review", made["id"], "--model", "m").status == 2
    assert demiurge("tools", "review", made["id"], "--by-model", "--skip", "--reason", "x").status == 2
    approved = demiurge("tools", "approve", made["id"], "--read", "--digest", made["digest"])
    assert approved.status == 0, approved.err


def test_a_budget_of_model_runs_that_nears_its_end_is_said(
    demiurge: Run, provider: Provider, file: str, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    root = {"$kind": "manifest", "extends": "demiurge", "settings": {"model_runs": {"max_requests": 1}}}
    (own / "all.json").write_text(json.dumps([root]))
    assert demiurge("init", "--manifest", str(own)).status == 0
    made = demiurge("tools", "propose", file, "--json").document
    answers = {"sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}
    reply = json.dumps({"digest": made["digest"], "recommend": "approve", **answers})
    provider.say(Provider.answer(Provider.text(reply)))
    done = demiurge("tools", "review", made["id"], "--by-model", "--model", "gpt-5-mini")
    assert done.status == 0, done.err
    assert "The model runs on this proposal have used up the budget: 1 of 1 model requests." in done.err
    assert "raise `max_requests` of the manifest's setting `model_runs`" in done.err


def test_the_test_cases_are_tried_on_a_model(demiurge: Run, provider: Provider, file: str) -> None:
    made = demiurge("tools", "propose", file, "--json").document
    provider.say(
        Provider.answer(Provider.text('Slow: "She waited."')), Provider.answer(Provider.text("It is slow.\x1b[2J"))
    )
    done = demiurge("tools", "test", made["id"], "--on-model")
    assert done.status == 0, done.err
    assert "On a model: 1 of 2 test cases" in done.out
    assert "done, 30 tokens, cost" in done.out
    assert "  ok  test case quotes\n" in done.out
    assert "  failed  test case no_quotes (must_match: the reply does not match" in done.out
    assert "\x1b" not in done.out
    assert "On a model: 1 of 2 test cases" in demiurge("tools", "review", made["id"]).out
    assert demiurge("tools", "test", made["id"], "--model", "m").status == 2
    verdict = ("--case", "c", "--pass", "--note", "n")
    assert demiurge("tools", "test", made["id"], "--on-model", *verdict).status == 2
    provider.say(Provider.raw(b'{"error": {"message": "no such model"}}', 404, "application/json"))
    failed = demiurge("tools", "test", made["id"], "--on-model", "--json")
    assert failed.status == 1
    assert "0 of 2 test cases" in demiurge("tools", "review", made["id"]).out
