"""`demiurge chat claims`: which claims of the model's answers hold."""

from __future__ import annotations

from typing import Any

FORGED = "rcpt_0123456789abcdef0123456789abcdef"


def say(demiurge: Any, provider: Any, *answers: Any) -> None:
    provider.say(*map(provider.answer, answers))
    assert demiurge("chat", "--message", "Look at it.").status == 0


def test_the_claims_of_a_chat_are_listed(demiurge: Any, provider: Any) -> None:
    assert demiurge("ws", "write", "main/Story/SCN-hall.md", "The hall is dark.").status == 0
    read = provider.call("workspace__read", {"path": "Story/SCN-hall.md"})
    say(demiurge, provider, read, provider.text('Evidence: Story/SCN-hall.md line 1 "The hall is dark."'))
    sound = demiurge("chat", "claims")
    assert (sound.status, sound.out) == (
        0,
        'holds    message 1, line 1: Evidence: Story/SCN-hall.md line 1 "The hall is dark."\n',
    )
    say(demiurge, provider, provider.text(f"It is dark.\nEvidence: Story/SCN-hall.md line 1 {FORGED}"))
    refused = demiurge("chat", "claims", "main", "--json")
    assert (refused.status, refused.document["error"]["code"]) == (1, "claims_refused")
    [first, second] = refused.document["replies"]
    assert (refused.document["ok"], first["ok"], second["ok"]) == (False, True, False)
    assert second["claims"] == [
        {
            "line": 2,
            "text": f"Evidence: Story/SCN-hall.md line 1 {FORGED}",
            "ok": False,
            "code": "unknown_receipt",
            "detail": FORGED,
            "message": f"No recorded call gave the receipt {FORGED}.",
        }
    ]
    shown = demiurge("chat", "claims")
    assert shown.status == 1
    assert f"unknown_receipt: No recorded call gave the receipt {FORGED}." in shown.out
    assert "Claims that do not hold: 1; erased answers: 0." in shown.err
    assert demiurge("chat", "claims", "--request", "1").status == 0
    assert demiurge("chat", "claims", "--request", "1", "--role", "Planner", "--json").status == 1
    assert demiurge("chat", "claims", "--role", "king").status == 1
    assert demiurge("chat", "claims", "nobody").status == 1


def test_a_chat_without_claims_says_so(demiurge: Any, provider: Any) -> None:
    say(demiurge, provider, provider.text("Hello."))
    done = demiurge("chat", "claims")
    assert (done.status, done.out) == (0, "No answer of this chat cites a source.\n")
    document = demiurge("chat", "claims", "--json").document
    assert (document["ok"], [reply["claims"] for reply in document["replies"]]) == (True, [[]])
