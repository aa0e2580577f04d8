"""Records the worlds of `questions.tar.gz`: questions that wait, that were answered, and that were declined.

Run it as `python -m tests.recorded.record_questions FILE` from the project's folder. The file in the project is never
written again (`README.md`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.recorded.record import Recorder, calls, main, text, waiting

WORLDS = ("desk", "fork")
WHERE = {"question": "Where to?", "choices": ["Rome", "Oslo"]}


def ask(rec: Recorder, chat: str, **arguments: Any) -> str:
    """A turn in which a question waits for a person; returns the id under which it waits."""
    rec.turn(chat, "Book a trip.", calls(("core__ask_user", {**WHERE, **arguments})), text("Booked."), status=1)
    return waiting(rec, chat)


def record_questions(rec: Recorder) -> dict[str, Any]:
    """Chats whose questions were answered by a choice, in words, declined, and one whose question waits."""
    rec.run("desk", "init", "--tools", "desk_tools")
    rec.run("desk", "approvals", "answer", ask(rec, "chosen", allow_other=False), "--choice", "2")
    rec.run("desk", "approvals", "answer", ask(rec, "words"), "Lima, if you can")
    rec.run("desk", "approvals", "reject", ask(rec, "declined"), "--reason", "Ask my assistant.")
    waits = ask(rec, "open")
    rec.run("desk", "fork", str(rec.folder / "fork"))
    return {"waits": waits}


if __name__ == "__main__":
    main(Path(sys.argv[1]), WORLDS, record_questions)
