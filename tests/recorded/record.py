"""Records the worlds of `first.tar.gz` with the command line of the installed program, as a user would.

Run it as `python -m tests.recorded.record FILE` from the project's folder. The file that is in the project was written
by the first program; it is never written again, because its use is that later programs did not write it. A later
recording gets a file and a name of its own.

Nothing outside is asked: the model is a script behind a loopback socket, and so is the service that gets a new key.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from tests.provider import Provider, serving
from tests.wire.test_attachments import PNG

from demiurge import IdempotencyConfig
from demiurge.tools.ledger.idempotency import compute_idempotency_key, compute_params_hash

CODE = Path(__file__).parent / "code"
CHAT_API = ("--provider", "openai-chat")
CHAT = "demiurge/Demiurge@1"
KEY = "sk-recorded-0123456789abcdef"
SECRET = "secret-recorded-0123456789"
WORLDS = ("desk", "fork", "early_fork", "shop", "keys", "reminders")


class Colour(Enum):
    """A parameter's choice."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Line:
    """A part and how many of it."""

    part: str
    count: int = 1


@dataclass(frozen=True)
class Order:
    """Parameters of every plain kind."""

    lines: tuple[Line, ...]
    colour: Colour
    when: datetime
    price: Decimal
    id: UUID
    tags: frozenset[str]
    names: dict[str, int]
    data: bytes
    note: str | None = None
    weight: float = 1.5


class Parcel(BaseModel):
    """Parameters as a pydantic model."""

    to: str
    lines: list[Line]
    insured: bool = False


PARAMS: dict[str, Any] = {
    "none": None,
    "empty": {},
    "mapping": {"b": [1, 2.5, None, True], "a": {"z": "ü\u2028", "y": -0.0}},
    "large": {"n": 2**70},
    "dataclass": Line("bolt", 3),
    "defaults": Line("bolt"),
    "nested": Order(
        (Line("bolt", 3), Line("nut")),
        Colour.BLUE,
        datetime(2026, 11, 22, 12, 30, tzinfo=UTC),
        Decimal("12.50"),
        UUID(int=7),
        frozenset({"one"}),
        {"x": 1},
        b"data",
    ),
    "pydantic": Parcel(to="Ada", lines=[Line("bolt")]),
}
"""Parameters whose hashes were right, by name."""

CONFIGS: dict[str, IdempotencyConfig] = {
    "auto": IdempotencyConfig(),
    "params": IdempotencyConfig(strategy="params", param_keys=("part",)),
    "custom": IdempotencyConfig(strategy="custom", key_fn=lambda params: f"part={params.part}"),
    "none": IdempotencyConfig(strategy="none"),
    "unscoped": IdempotencyConfig(scope=""),
}


def hashes() -> dict[str, Any]:
    """What the program at hand computes of `PARAMS` and `CONFIGS`."""
    line = Line("bolt", 3)
    keys = {n: compute_idempotency_key(tool_name="order", params=line, config=c) for n, c in CONFIGS.items()}
    return {"params": {name: compute_params_hash(params) for name, params in PARAMS.items()}, "keys": keys}


@dataclass(frozen=True)
class Recorder:
    """Runs commands in a folder, as a user whose home is in it."""

    folder: Path
    provider: Provider

    def environment(self, **more: str) -> dict[str, str]:
        own = {
            "HOME": str(self.folder / "home"),
            "PATH": os.environ["PATH"],
            "LLM_API_KEY": KEY,
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_BASE_URL": self.provider.url,
            "ANTHROPIC_BASE_URL": self.provider.url.removesuffix("/v1"),
        }
        return own | more

    def run(self, world: str, *arguments: str, stdin: str = "", status: int | None = 0, **more: str) -> Any:
        """The document that a command prints."""
        command = [sys.executable, "-m", "demiurge.cli", "--json", "-w", str(self.folder / world), *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder / "code",
            env=self.environment(**more),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if status is not None and done.returncode != status:
            raise SystemExit(f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout) if done.stdout else None

    def turn(self, chat: str, text: str, *answers: Any, status: int | None = 0, **more: Any) -> Any:
        """A turn in which the model gives these answers."""
        self.provider.say(*answers)
        options = more.pop("options", ())
        return self.run("desk", "chat", chat, "-m", text, *options, status=status, **more)

    def killed_turn(self, chat: str, text: str, by: signal.Signals = signal.SIGKILL) -> None:
        """A turn whose process is killed, or stopped, while the model thinks."""
        self.provider.say(Provider.answer(Provider.text("Too late."), held=True))
        command = [sys.executable, "-m", "demiurge.cli", "-w", str(self.folder / "desk"), "chat", chat, "-m", text]
        process = subprocess.Popen(
            command,
            cwd=self.folder / "code",
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if not self.provider.asked.wait(30):
            raise SystemExit("the model was not asked")
        process.send_signal(by)
        process.wait()


def text(said: str) -> Any:
    return Provider.answer(Provider.text(said))


def calls(*wanted: tuple[str, Any]) -> Any:
    """An answer that proposes these calls; arguments that are text are sent as they are."""
    made = []
    for number, (name, arguments) in enumerate(wanted):
        call = Provider.call(name, arguments if not isinstance(arguments, str) else {}, f"call_{name}_{number}")
        made.append({**call, "arguments": arguments} if isinstance(arguments, str) else call)
    return Provider.answer(*made)


def cut(said: str) -> Any:
    """An answer that ran into the limit of output tokens."""
    whole = text(said)
    body = whole.body.replace(b'"status": "completed", "model"', b'"status": "incomplete", "model"')
    why = b'"incomplete_details": {"reason": "max_output_tokens"}, "usage"'
    body = body.replace(b"response.completed", b"response.incomplete").replace(b'"usage"', why)
    return Provider.raw(body)


def record_endings(rec: Recorder) -> None:
    """Turns that end in unusual ways, and events that another client sends."""
    rec.turn("cut", "Tell me all.", cut("It begins"))
    rec.turn("cut", "And?", text("That was all."))
    rec.turn("empty", "Say nothing.", Provider.answer(), status=None)
    rec.turn("loop", "Go on for ever.", calls(("stock", {"part": "bolt"})), status=None)
    twins = [Provider.call("stock", {"part": part}, "call_same") for part in ("bolt", "nut")]
    rec.turn("twins", "Both.", Provider.answer(*twins), text("Seven each."))
    rec.turn("long", "x" * 5000, Provider.recorded("chat_error_context"), status=None, options=CHAT_API)
    rec.turn("long", "Short.", Provider.recorded("chat_error_context"), status=None, options=CHAT_API)
    rec.killed_turn("stopped", "Think hard.", signal.SIGINT)
    created = json.dumps({"chat_id": "typed", "title": "Typed", "created_at_ms": 1})
    for _ in range(2):
        rec.run("desk", "event", "send", "demiurge/ChatCreated@1", created, status=None)
    message = {"role": "user", "content": [{"type": "text", "text": "Typed."}]}
    asked = {"chat_id": "typed", "model": "m1", "provider": "openai-responses", "max_tokens": 100, "tools_ref": None}
    for number, (content, choice) in enumerate(((message, None), ({"role": "user", "content": []}, "Auto"))):
        ref = rec.run("desk", "blob", "put", json.dumps(content))["hash"]
        chosen = {"$tag": choice} if choice is not None else None
        value = {**asked, "request_id": number + 1, "text": "Typed.", "message_ref": ref, "tool_choice": chosen}
        rec.provider.say(text("Seen."))
        rec.run("desk", "event", "send", "demiurge/UserMessage@1", json.dumps(value), status=None)


def record_desk(rec: Recorder) -> dict[str, Any]:
    """Chats: every way that a call or a turn can end, an archive in the middle, and what is left open."""
    rec.run("desk", "init", "--tools", "desk_tools", "--policy", "policy.toml")
    rec.turn("main", "Hello", text("Good morning."))
    rec.turn(
        "main",
        "How many bolts are there, and what time is it?",
        calls(("stock", {"part": "bolt"}), ("core__get_current_time", {"timezone": "Asia/Tokyo"})),
        calls(("stock", {"part": "unicorn"}), ("broken", {"part": "bolt"})),
        text("Seven bolts, and no unicorns."),
    )
    rec.turn(
        "main",
        "Do what you may not.",
        calls(("forbidden", {"what": "x"}), ("nope", {}), ("stock", '{"part": '), ("stock", {"parts": 1})),
        text("I may not."),
    )
    write = {"path": "notes/today.md", "text": "Seven bolts.\n"}
    rec.turn(
        "main",
        "Note it.",
        calls(("workspace__write", write)),
        calls(("workspace__read", {"path": "notes/today.md"}), ("workspace__list", {})),
        text("It is noted."),
    )
    early = sealed(rec, "desk")
    rec.turn("approved", "Refund A.", calls(("refund", {"parcel": "A"})), text("Refunded."), status=1)
    rec.run("desk", "approvals", "approve", waiting(rec, "approved"), "--reason", "It was broken.")
    rec.turn("rejected", "Refund B.", calls(("refund", {"parcel": "B"})), text("Not refunded."), status=1)
    rec.run("desk", "approvals", "reject", waiting(rec, "rejected"), "--reason", "It is whole.")
    rec.turn("yes", "Refund C.", calls(("refund", {"parcel": "C"})), text("Refunded."), options=("--yes",))
    rec.turn("ledger", "Order bolts.", calls(("order", {"part": "bolt", "count": 3})), text("Ordered."))
    rec.turn("ledger", "And again.", calls(("order", {"count": 3, "part": "bolt"})), text("As ordered before."))
    rec.turn("doubt", "Ship A.", calls(("ship", {"parcel": "A"})), text("-"), status=9, DESK_DIES="1")
    rec.turn("doubt", "Was it shipped?", text("Nobody knows."), text("Nobody knows that."), status=None)
    rec.turn("picture", "What is this?", text("A dot."), options=("--attach", "dot.png"))
    rec.turn("refused", "Fail.", Provider.recorded("responses_error_value"), status=1)
    rec.turn("chat_api", "Hello", Provider.recorded("chat_stream_text"), options=CHAT_API)
    rec.turn("messages", "Hello", Provider.recorded("messages_stream_text"), options=("--provider", "anthropic"))
    rec.turn("erased", "My number is 555-0123.", text("I shall forget it."))
    messages = rec.run("desk", "state", "get", CHAT, "--key", "erased")["messages"]
    rec.run("desk", "erase", messages[0]["message_ref"], "--why", "It was private.")
    record_endings(rec)
    rec.run("desk", "tools", "call", "stock", '{"part": "nut"}')
    rec.run("desk", "ws", "write", "main/typed.txt", "typed")
    middle = sealed(rec, "desk")
    rec.run("desk", "journal", "archive", "--before", "60")
    rec.run("desk", "fork", str(rec.folder / "early_fork"), "--at", str(early["records"] - 1))
    rec.turn("main", "Are you still there?", text("I am."))
    rec.turn("open", "Refund D.", calls(("refund", {"parcel": "D"})), text("Refunded."), status=1)
    rec.run("desk", "fork", str(rec.folder / "fork"))
    rec.turn("claimed", "Order nuts.", calls(("order", {"part": "nut"})), text("-"), status=9, DESK_DIES="1")
    rec.turn("died", "Ship B.", calls(("ship", {"parcel": "B"})), text("-"), status=9, DESK_DIES="1")
    rec.killed_turn("killed", "Think hard.")
    return {"early_seal": early, "middle_seal": middle}


def sealed(rec: Recorder, world: str) -> dict[str, Any]:
    """The seal of a world as it is, and of how many records it is."""
    records = sum(unit["records"] for unit in rec.run(world, "journal", "head")["units"])
    return {"records": records, "seal": rec.run(world, "journal", "seal")["seal"]}


def waiting(rec: Recorder, chat: str) -> str:
    asked = rec.run("desk", "approvals", "ls")["approvals"]
    [found] = [one["id"] for one in asked if one["unit"] == f"{CHAT}/{chat}"]
    return str(found)


def record_others(rec: Recorder, service: str) -> None:
    """Worlds with manifests and reducers of their own: a plan, a vault with its secrets, a timer."""
    rec.run("shop", "init", "--manifest", "shop", "--tools", "shop_code")
    for order, part in (("A-1", "bolt"), ("A-2", "unicorn"), ("A-3", "nut")):
        value = {"order": order, "part": part, "count": 2}
        rec.run("shop", "event", "send", "shop/Placed@1", json.dumps(value), status=None)
    rec.run("shop", "event", "send", "shop/Paid@1", json.dumps({"order": "A-1", "amount": 6}))
    rec.run("keys", "init", "--manifest", "keys", "--tools", "keys_code")
    sealed = rec.run("keys", "secrets", "seal", "web/robot", stdin=SECRET)["value_ref"]
    given = {"service": "robots", "url": service, "value_ref": sealed}
    rec.run("keys", "event", "send", "keys/Given@1", json.dumps(given))
    rec.run("reminders", "init", "--manifest", "reminders", "--tools", "reminders_code")
    for wish, at_ns in (("tea", 1), ("the year 2200", 7_258_118_400 * 10**9)):
        rec.run("reminders", "event", "send", "desk/Wish@1", json.dumps({"text": wish, "at_ns": at_ns}))


class _Service(BaseHTTPRequestHandler):
    """Takes a new key from whoever has the old one."""

    def log_message(self, *_: Any) -> None:
        pass

    def do_PUT(self) -> None:
        self.send_response(204)
        self.end_headers()


def expected(rec: Recorder, folder: Path, worlds: Sequence[str]) -> dict[str, Any]:
    """What the program that recorded says of its worlds. Looking at them changes nothing of what is kept of them."""
    found: dict[str, Any] = {}
    for world in worlds:
        verified = rec.run(world, "journal", "verify")
        states = {}
        modules = [d["name"] for d in rec.run(world, "manifest", "get")["definitions"] if d["$kind"] == "defmodule"]
        for module in modules:
            for row in rec.run(world, "state", "ls", module)["keys"]:
                states[f"{module}/{row}"] = rec.run(world, "state", "get", module, "--key", row)
        found[world] = {
            "folder": str(folder / world),
            "verified": verified,
            "replayed": rec.run(world, "replay", "--check"),
            "heads": rec.run(world, "journal", "head"),
            "states": states,
        }
    return found


def pack(folder: Path, file: Path, parts: Sequence[str]) -> None:
    """Packs parts of a folder into a file."""
    with tarfile.open(file, "w:gz", compresslevel=9) as tar:
        for part in parts:
            tar.add(folder / part, part, filter=lambda info: None if "__pycache__" in info.name else info)


def record_all(rec: Recorder) -> dict[str, Any]:
    """The worlds of `first.tar.gz`, and the hashes of `PARAMS` and `CONFIGS`."""
    (rec.folder / "code/dot.png").write_bytes(PNG)
    service = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        facts = record_desk(rec)
        record_others(rec, f"http://127.0.0.1:{service.server_port}/key")
    finally:
        service.shutdown()
        service.server_close()
    return {**facts, "hashes": hashes()}


def main(file: Path, worlds: Sequence[str], record: Callable[[Recorder], dict[str, Any]]) -> None:
    """Records these worlds in a new folder, and packs them into `file` with the facts about them: those that `record`
    returns, and what the program says of each world."""
    folder = Path(tempfile.mkdtemp())
    (folder / "home").mkdir(mode=0o700)
    shutil.copytree(CODE, folder / "code", ignore=shutil.ignore_patterns("__pycache__"))
    try:
        with serving() as provider:
            rec = Recorder(folder, provider)
            facts = record(rec)
            facts["recorded_until_ns"] = int(datetime.now(UTC).timestamp() * 10**9)
            facts["worlds"] = expected(rec, folder, worlds)
        (folder / "facts.json").write_text(json.dumps(facts, indent=1, sort_keys=True))
        pack(folder, file, (*worlds, "home", "code", "facts.json"))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), WORLDS, record_all)
