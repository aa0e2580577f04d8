"""Arguments of calls that people change and allow go through a served world, whose process is killed in between; a
viewer asks everything that there is."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.canaries.search import Traces

CODE = '''
from typing import Any

from demiurge import Redaction, ToolContext, ToolEffect, ToolResult, tool


@tool(effect=ToolEffect.STATE_CHANGE, redaction=Redaction.allow("part", arguments=("part",)))
def order(part: str, card: str, *, context: ToolContext) -> ToolResult[dict[str, Any]]:
    """Orders a part."""
    return ToolResult(message=f"ordered {part}", value={"part": part, "card": card})
'''
VALUES = {
    "proposed argument": "canary/proposed+0123456789=%",
    "changed argument": "canary/changed+0123456789=%",
    "argument of a rule": "canary/ruled+0123456789=%",
    "argument that waits": "canary/waiting+0123456789=%",
    "reason of an approval": "canary/why+0123456789=%",
    "reason of a rule": "canary/rule+0123456789=%",
    "reason of a rejection": "the part is too dear",
}
PLACES = {
    "chat_id": "main",
    "request_id": "1",
    "unit": "demiurge/Demiurge@1/main",
    "seq": "0",
    "module": "demiurge/Demiurge@1",
    "tool_id": "order",
    "name": "main",
}


class Journey:
    """A served world: its server, clients of its user and of a viewer, and all that the servers printed."""

    def __init__(self, process: Any, provider: Any, tmp_path: Path) -> None:
        (tmp_path / "desk_code.py").write_text(CODE)
        (tmp_path / "policy.toml").write_text(
            'allowed_tools = ["order"]\nrequire_approval_for_effects = ["state_change"]\n'
        )
        self._options = ("--tools", "desk_code", "--policy", str(tmp_path / "policy.toml"), "-vv")
        self._process, self.provider = process, provider
        self.said: list[bytes | str] = []
        made = [self._run("init", "--json"), self._run("tokens", "add", "user:eve", "--role", "viewer", "--json")]
        self._tokens = [document["token"] for document in made]

    def _run(self, *words: str) -> Any:
        done = self._process(*words)
        assert done.status == 0, done
        return json.loads(done.out)

    @contextmanager
    def served(self, *, killed: bool = False) -> Iterator[tuple[httpx.Client, httpx.Client]]:
        """Yields clients of the user and of the viewer of a server that is stopped, or killed, afterwards."""
        running: subprocess.Popen[str] = self._process.start("serve", "--port", "0", "--json", *self._options)
        assert running.stdout is not None
        url = json.loads(running.stdout.readline())["url"]
        headers = [{"authorization": f"Bearer {token}"} for token in self._tokens]
        with (
            httpx.Client(base_url=url, headers=headers[0], timeout=60) as user,
            httpx.Client(base_url=url, headers=headers[1], timeout=60) as viewer,
        ):
            yield user, viewer
        (running.kill if killed else running.terminate)()
        ended = self._process.finish(running)
        self.said += [ended.out, ended.err]

    def commands(self, url: str) -> list[bytes | str]:
        """Returns what the command line prints of the chat to the viewer."""
        shown = (
            ("trace", "--chat", "main", "--all"),
            ("--json", "trace", "--chat", "main"),
        )
        done = [self._process("-w", url, "--token", self._tokens[1], *words) for words in shown]
        assert [each.status for each in done] == [0] * len(shown), done
        exported = self._process("-w", url, "--token", self._tokens[1], "chat", "export")
        assert exported.status == 1, exported  # a chat is exported whole, and a viewer may not see it whole
        return [each.out + each.err for each in (*done, exported)]

    def ask(self, user: httpx.Client, card: str, number: int) -> Any:
        """Has the model propose a call with this argument; returns the call that waits, None if none does."""
        call = self.provider.call("order", {"part": "bolt", "card": card}, f"call_{number}")
        self.provider.say(self.provider.answer(call), self.provider.answer(self.provider.text("So be it.")))
        user.post("/api/chats/main/messages", json={"text": "Order a bolt.", "wait": True}).raise_for_status()
        return next(iter(user.get("/api/approvals").json()["approvals"]), None)


def settled(user: httpx.Client) -> None:
    """Waits until the turn of the chat is over."""
    while user.get("/api/chats/main").json()["status"] == "running":
        pass


def decide(user: httpx.Client, asked: Any, path: str = "", **body: Any) -> None:
    user.post(f"/api/approvals/{asked['id']}{path}", json=body).raise_for_status()
    settled(user)


def answers_to(viewer: httpx.Client, approval: str) -> list[str]:
    """Everything that a viewer is answered by the paths that only read."""
    found, worked, places = [], 0, {**PLACES, "approval_id": approval}
    for path, methods in viewer.get("/api/openapi.json").json()["paths"].items():
        if "get" in methods and path not in ("/api/journal/stream", "/api/openapi.json"):
            answer = viewer.get(re.sub(r"\{(\w+)\}", lambda part: places.get(part[1], "none"), path))
            found.append(answer.text + str(answer.headers))
            worked += answer.status_code == 200
    found += [viewer.get(f"/api/{path}").text for path in ("journal?limit=1000", "trace?chat=main")]
    assert worked > 15
    return found


def run_journey(process: Any, provider: Any, world: Path, tmp_path: Path) -> Traces:
    """Changes a call, makes a rule, lets it allow a call, rejects one and leaves one open."""
    journey = Journey(process, provider, tmp_path)
    with journey.served(killed=True) as (user, _):
        changed = json.dumps({"part": "nut", "card": VALUES["changed argument"]})
        asked = journey.ask(user, VALUES["proposed argument"], 1)
        reason = VALUES["reason of an approval"]
        decide(user, asked, decision="approve", arguments_json=changed, reason=reason)
        asked = journey.ask(user, VALUES["argument of a rule"], 2)
        decide(user, asked, "/rule", count=3, reason=VALUES["reason of a rule"])
    with journey.served() as (user, viewer):
        assert journey.ask(user, VALUES["argument of a rule"], 3) is None
        assert user.get("/api/approvals/rules").json()["rules"][0]["left"] == 1
        decide(user, journey.ask(user, "x", 4), decision="reject", reason=VALUES["reason of a rejection"])
        waits = journey.ask(user, VALUES["argument that waits"], 5)
        assert VALUES["argument that waits"] in waits["arguments_json"]
        journal = user.get("/api/journal?limit=1000").text
        refs = sorted(set(re.findall(r"sha256:[0-9a-f]{64}", journal)))
        answers = answers_to(viewer, waits["id"])
        blobs = [viewer.get(f"/api/blob/{ref}").text for ref in refs]
        printed = journey.commands(str(viewer.base_url))
        own = journal + "".join(user.get(f"/api/blob/{ref}").text for ref in refs)
        assert all(json.dumps(value)[1:-1] in own for value in VALUES.values()), "the user sees all of them"
        assert VALUES["reason of a rejection"] in "".join(answers)
    surfaces: dict[str, list[bytes | str]] = {
        "answers to a viewer": [*answers],
        "blobs of a viewer": [*blobs],
        "command line of a viewer": printed,
        "stdout and stderr": [*journey.said],
    }
    return Traces(VALUES, surfaces, frozenset({"reason of a rejection"}))
