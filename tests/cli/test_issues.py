"""`demiurge issues`: issues by hand, and the decision on a proposal by its issue."""

from __future__ import annotations

import json

from tests.cli.conftest import Run
from tests.registry.proposals import proposal_of


def test_an_issue_is_opened_commented_closed_and_reopened(demiurge: Run) -> None:
    made = demiurge("issues", "open", "The \x07 scene", "Look.")
    assert (made.status, "printable" in made.err) == (1, True)
    issue = demiurge("issues", "open", "The first scene", "Look.\x1b[2J", "--tag", "draft").out.strip()
    assert demiurge("issues", "comment", issue, "Seen.").status == 0
    shown = demiurge("issues", "show", issue).out
    assert ("\x1b" in shown, "  | Seen." in shown) == (False, True)
    assert demiurge("issues", "close", issue, "--json").document["status"] == "closed"
    assert demiurge("issues", "reopen", issue, "--json").document["status"] == "open"
    assert demiurge("issues", "close", issue, "--reason", "It is done.").status == 0
    assert demiurge("issues", "reopen", issue, "--reason", "It is not.").status == 0
    shown = demiurge("issues", "show", issue).out
    assert ("(close):\n  | It is done." in shown, "(reopen):\n  | It is not." in shown) == (True, True)
    [listed] = demiurge("issues", "ls", "--tag", "draft", "--json").document["issues"]
    assert listed["id"] == issue
    none = demiurge("issues", "act", issue, "approve", "--json")
    assert (none.status, none.document["error"]["code"]) == (1, "no_action")
    assert demiurge("issues", "show", "issue-0", "--json").document["error"]["code"] == "no_issue"


def test_a_proposal_is_approved_by_its_issue(demiurge: Run) -> None:
    made = demiurge("tools", "propose", json.dumps(proposal_of()), "--json").document
    skip = ("--skip", "--reason", "It is a test.", "--digest", made["digest"])
    assert demiurge("tools", "review", made["id"], *skip).status == 0
    unread = demiurge("issues", "act", made["decision_issue"], "approve", "--json")
    assert (unread.status, unread.document["error"]["code"]) == (1, "digest_missing")
    done = demiurge("issues", "act", made["decision_issue"], "approve", "--read", "--digest", made["digest"], "--json")
    assert (done.status, done.document["status"]) == (0, "closed")
    assert demiurge("tools", "show", made["tool"]).status == 0
