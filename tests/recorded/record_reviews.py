"""Records the worlds of `reviews.tar.gz`: prompt tools that were proposed, reviewed, approved and rejected, issues, and
chats whose turns had a catalog.

Run it as `python -m tests.recorded.record_reviews FILE` from the project's folder. The file in the project is never
written again (`README.md`).
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.recorded.record import Recorder, calls, main, text, waiting
from tests.registry.proposals import proposal_of

from demiurge import World
from demiurge.values.caller import Caller

WORLDS = ("desk", "fork")
WHY = "It was tried on three scenes."
SCENE = "Story/SCN-hall.md"
FORGED = "rcpt_0123456789abcdef0123456789abcdef"
ANSWERS = {"sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}

MODELS_OWN = {
    "id": "from_a_model",
    "name": "From a model",
    "usage_notes": "When a scene has no end.",
    "prompt": "Read the scene. Name the last sentence that it needs.",
    "rationale": "Scenes without an end were asked about twice.",
    "examples": [{"input": "Where does it end?", "expected": "A sentence."}, {"input": "End it.", "expected": "One."}],
    "test_cases": [
        {"id": "short", "should": "pass", "reply": "It ends here.", "must_match": ["ends"]},
        {"id": "long", "should": "fail", "reply": "It goes on.", "must_match": ["ends"]},
    ],
}


def propose(rec: Recorder, **changed: Any) -> Any:
    """Proposes a tool as the user."""
    return rec.run("desk", "tools", "propose", json.dumps(proposal_of(**changed)))


def decide(rec: Recorder, proposal: Any, verdict: str, *options: str) -> Any:
    """Skips the review of a proposal, and decides."""
    about = (proposal["id"], "--digest", proposal["digest"])
    rec.run("desk", "tools", "review", *about, "--skip", "--reason", WHY)
    return rec.run("desk", "tools", verdict, *about, *options)


def record_proposals(rec: Recorder) -> None:
    """Versions of one tool, a tool of the project, and proposals that were rejected, returned, withdrawn or wait."""
    manual = {"id": "by_eye", "should": "pass", "check": "The remarks are friendly."}
    first = propose(rec, testCases=[*proposal_of()["testCases"], manual])
    verdict = ("--case", "by_eye", "--pass", "--note", "They are.", "--digest", first["digest"])
    rec.run("desk", "tools", "test", first["id"], *verdict)
    decide(rec, first, "approve", "--read")
    rec.turn("paced", "Is the hall slow?", text("It is not."))
    changed = "Read the scene. Name one paragraph that slows it down, with a quote."
    base = rec.run("desk", "tools", "show", "scene_pacer")["digest"]
    decide(rec, propose(rec, proposalType="modify", prompt=changed, baseHash=base), "approve", "--read")
    decide(rec, propose(rec, id="our_style", name="Our style", target="project"), "approve", "--read")
    decide(rec, propose(rec, id="scene_judge", name="Scene judge"), "reject", "--reason", "One is enough.")
    decide(rec, propose(rec, id="scene_cutter", name="Scene cutter"), "needs-changes", "--reason", "Say how much.")
    gone = propose(rec, id="scene_counter", name="Scene counter")
    rec.run("desk", "tools", "withdraw", gone["id"], "--digest", gone["digest"], "--reason", "A mistake.")
    rec.run("desk", "tools", "rollback", "scene_pacer", "1", "--reason", "The first text was better.")
    rec.run("desk", "tools", "export")


async def record_others(rec: Recorder) -> None:
    """A turn without a catalog, and a proposal of an agent that the Chief of Staff has reviewed and no user decided."""
    rec.provider.say(text("Good day."))
    async with World.open(rec.folder / "desk", environment=rec.environment()) as world:
        await world.chat("bare").send("Hello", skip_tool_catalog=True)
        agent = world.acting_as(Caller("agent:ada", roles=("agent",)))
        made = await agent.prompt_tools.propose(proposal_of(id="gate_keeper", name="Gate keeper"))
        chief = world.acting_as(Caller("agent:chief", roles=("agent", "chief")))
        await chief.prompt_tools.review(made.id, made.digest, "approve", **ANSWERS)


def record_issues(rec: Recorder) -> None:
    """An issue that is open, with comments, and one that was closed."""
    opened = rec.run("desk", "issues", "open", "Two endings", "Which one?", "--tag", "plot", "--assignee", "user")
    rec.run("desk", "issues", "comment", opened["id"], "The first.")
    rec.run("desk", "issues", "comment", opened["id"], "Or the second.")
    closed = rec.run("desk", "issues", "open", "A typo", "--priority", "low")
    rec.run("desk", "issues", "close", closed["id"])


def record_claims(rec: Recorder) -> None:
    """A chat that cites a receipt of its own call, one that nobody gave, and words that its file does not have."""
    core = ("--only-tools", "core__file_reader,workspace__read")
    reading = calls(("core__file_reader", {"file_path": SCENE}), ("workspace__read", {"path": SCENE}))
    rec.turn("cited", "Read it.", reading, text("It is read."), options=core)
    results = [
        entry["tool"]["result"] for entry in rec.run("desk", "chat", "show", "cited")["messages"] if "tool" in entry
    ]
    receipt = results[0]["receipt"]["receipt_id"]
    rec.turn("cited", "Quote it.", text(f'Evidence: {SCENE} line 1 "The hall is dark." {receipt}'))
    rec.turn("cited", "And more.", text(f'{SCENE} says "The hall is bright".\nSee {FORGED}.'))


def states(rec: Recorder, world: str) -> dict[str, Any]:
    """Returns the states of the registry, the proposals and the issues of a world, by unit. A unit that only refused
    something has none."""
    found = {}
    for module in ("sys/ToolRegistry@1", "sys/ToolProposal@1", "sys/Issue@1"):
        for key in rec.run(world, "state", "ls", module)["keys"]:
            state = rec.run(world, "state", "get", module, "--key", key, status=None)
            if "error" not in state:
                found[f"{module}/{key}"] = state
    return found


def record_reviews(rec: Recorder) -> dict[str, Any]:
    """Chats with the core catalog, with later catalogs and with none; answers whose claims hold and do not."""
    rec.run("desk", "init", "--tools", "desk_tools")
    rec.run("desk", "ws", "write", f"main/{SCENE}", "The hall is dark.\nNobody came.\n")
    rec.turn("core", "Hello", text("Good day."))
    record_proposals(rec)
    reading = calls(("core__prompt_tool", {"id": "scene_pacer"}))
    rec.turn("paced", "And now?", reading, text("It is slow."))
    record_claims(rec)
    asyncio.run(record_others(rec))
    rec.turn("proposes", "Propose it.", calls(("core__propose_tool", MODELS_OWN)), text("Done."), status=1)
    rec.run("desk", "approvals", "approve", waiting(rec, "proposes"))
    record_issues(rec)
    rec.run("desk", "fork", str(rec.folder / "fork"))
    return {
        "catalog": rec.run("desk", "tools", "ls"),
        "proposals": rec.run("desk", "tools", "proposals")["proposals"],
        "history": rec.run("desk", "tools", "history", "scene_pacer"),
        "issues": rec.run("desk", "issues", "ls"),
        "claims": rec.run("desk", "chat", "claims", "cited", status=1)["replies"],
        "reviews": {world: states(rec, world) for world in WORLDS},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), WORLDS, record_reviews)
