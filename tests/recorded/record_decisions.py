"""Records the world of `decisions.tar.gz`: what people decided other than yes and no, and a log of manifests.

Run it as `python -m tests.recorded.record_decisions FILE` from the project's folder. The file in the project is never
written again (`README.md`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.recorded.record import CHAT, Recorder, calls, main, sealed, text, waiting

WORLDS = ("desk",)


def asks(rec: Recorder, chat: str, tool: str, **arguments: Any) -> str:
    """A turn in which a call waits for a person; returns the approval's id."""
    rec.turn(chat, f"{tool} {arguments}", calls((tool, arguments)), text("So it is."), status=1)
    return waiting(rec, chat)


def record_decisions(rec: Recorder) -> dict[str, Any]:
    """Chats with edited calls and standing rules, tokens, and changes of the policy and of the prompt."""
    rec.run("desk", "init", "--tools", "desk_tools", "--policy", "policy.toml")
    changed = json.dumps({"parcel": "A, without its box"})
    rec.run("desk", "approvals", "approve", asks(rec, "edited", "refund", parcel="A"), "--arguments", changed)
    rec.turn("edited", "Is it refunded?", text("It is."))
    pattern = ("--like", "parcel=B*", "--count", "5", "--hours", "700", "--reason", "Refund all of B.")
    rec.run("desk", "approvals", "allow", asks(rec, "ruled", "refund", parcel="B"), *pattern)
    rec.turn("ruled", "And the next.", calls(("refund", {"parcel": "B-2"})), text("Refunded."))
    asks(rec, "ruled", "refund", parcel="C")
    rec.run("desk", "approvals", "allow", asks(rec, "forgotten", "refund", parcel="D"))
    [rule] = [one for one in rec.run("desk", "approvals", "rules")["rules"] if one["unit"] == f"{CHAT}/forgotten"]
    rec.run("desk", "approvals", "forget", rule["id"])
    asks(rec, "forgotten", "refund", parcel="D")
    early = sealed(rec, "desk")
    rec.run("desk", "policy", "set", "strict_policy.toml")
    edited = json.dumps({"parcel": "E, by train"})
    rec.run("desk", "approvals", "approve", asks(rec, "strict", "ship", parcel="E"), "--arguments", edited)
    rec.turn("strict", "Order a bolt.", calls(("order", {"part": "bolt"})), text("I may not."))
    rec.run("desk", "policy", "set", "policy.toml")
    rec.turn("prompted", "Hello", text("Good day."), options=("--system", "Be brief."))
    kept = rec.run("desk", "tokens", "add", "user:ada", "--role", "approver")
    gone = rec.run("desk", "tokens", "add", "user:eve", "--role", "agent")
    rec.run("desk", "tokens", "revoke", gone["id"])
    asks(rec, "open", "refund", parcel="F")
    return {
        "early_seal": early,
        "tokens": {"kept": kept["token"], "revoked": gone["token"]},
        "manifest_log": rec.run("desk", "manifest", "log"),
        "rules": rec.run("desk", "approvals", "rules")["rules"],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), WORLDS, record_decisions)
