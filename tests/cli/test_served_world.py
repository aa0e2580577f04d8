"""Commands on the world of a server: `demiurge -w http://... --token ...`."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.cli.conftest import Done, Processes, Run
from tests.provider import Provider, call, responses, text

CHAT = "demiurge/ChatEvent@1"
CREATED = {"$tag": "ChatCreated", "$value": {"chat_id": "c1", "title": "First", "created_at_ms": 1}}


class Server:
    """A running `demiurge serve`, and commands against it with the token that `init` made."""

    def __init__(self, run: Run, url: str, token: str) -> None:
        self.run, self.url, self.token = run, url, token

    def __call__(self, *words: str, token: str | None = None, stdin: bytes = b"") -> Done:
        return self.run("-w", self.url, "--token", token or self.token, *words, stdin=stdin)

    def document(self, *words: str, token: str | None = None, stdin: bytes = b"") -> Any:
        done = self(*words, "--json", token=token, stdin=stdin)
        assert done.status == 0, done.err
        return done.document


@pytest.fixture
def server(demiurge: Run, process: Processes) -> Iterator[Server]:
    token = demiurge("init", "--json").document["token"]
    running = process.start("serve", "--port", "0", "--json", "-v")
    assert running.stdout is not None
    printed: Mapping[str, Any] = json.loads(running.stdout.readline())
    assert printed["login"] is None, "stdout is no terminal: it may be a log"
    yield Server(demiurge, printed["url"], token)
    running.terminate()
    assert process.finish(running).status == 0


def test_silent_connections_that_take_every_file_descriptor_keep_no_caller_out(
    demiurge: Run, process: Processes
) -> None:
    token = demiurge("init", "--json").document["token"]
    running = process.start("serve", "--port", "0", "--json")
    assert running.stdout is not None
    url = json.loads(running.stdout.readline())["url"]
    resource.prlimit(running.pid, resource.RLIMIT_NOFILE, (64, 64))  # it chose its limits when it had more
    port = urlsplit(url).port
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    headers = {"authorization": f"Bearer {token}"}
    for _ in range(3):
        answer = httpx.get(f"{url}/api/info", headers=headers, timeout=60)
        assert answer.status_code == 200
    for each in silent:
        each.close()
    running.terminate()
    done = process.finish(running)
    assert done.status == 0
    assert "Too many open files" in done.err
    assert len(done.err) < 5_000


def test_a_chat_and_its_approval_go_through_the_server(server: Server, provider: Provider) -> None:
    written = call("workspace__write", {"path": "a.txt", "text": "hello"})
    provider.say(responses(written), responses(text("Written.")))
    asked = server("chat", "--message", "Write it")
    assert "approvals approve" in asked.out + asked.err
    assert f"-w {server.url}" in asked.out + asked.err
    assert server.token not in asked.out + asked.err
    [waiting] = server.document("approvals", "ls")["approvals"]
    decided = server.document("approvals", "approve", waiting["id"])
    assert decided["reply"]["text"] == "Written."
    assert server("ws", "cat", "main/a.txt").out == "hello"
    assert server.document("chat", "ls")["chats"][0]["status"] == "done"
    assert "Written." in server("chat", "show").out


def test_a_login_link_is_made_by_a_command_and_works_once(server: Server) -> None:
    links = [server.document("tokens", "link")["login"], server.run("tokens", "link", "--url", server.url).out.strip()]
    for link in links:
        assert link.startswith(f"{server.url}/login?code=")
        with httpx.Client(timeout=60) as browser:
            assert browser.get(link).status_code == 303
            assert browser.get(f"{server.url}/api/session").json()["actor"] == "user"
        again = httpx.get(link, timeout=60)
        assert (again.status_code, "tokens link" in again.text) == (401, True)
    assert all("login link" not in token["label"] for token in server.document("tokens", "ls")["tokens"])


def test_a_person_who_decides_second_is_told_who_was_first(server: Server, provider: Provider) -> None:
    provider.say(responses(call("workspace__write", {"path": "a.txt", "text": "x"})), responses(text("Then not.")))
    server("chat", "--message", "Write it")
    [waiting] = server.document("approvals", "ls")["approvals"]
    ada = server.document("tokens", "add", "user:ada", "--role", "approver")["token"]
    assert server("approvals", "reject", waiting["id"], "--reason", "too long", token=ada).status == 0
    second = server("approvals", "approve", waiting["id"], "--json")
    assert (second.status, second.document["error"]["code"]) == (1, "decided")
    details = second.document["error"]["details"]
    assert (details["by"], details["verdict"], details["reason"]) == ("user:ada", "rejected", "too long")
    assert "user:ada rejected it" in server("approvals", "approve", waiting["id"]).err


def test_events_blobs_state_and_the_journal(server: Server) -> None:
    sent = server.document("event", "send", CHAT, json.dumps(CREATED))
    assert sent["unit"] == "demiurge/Demiurge@1/c1"
    stored = server.document("blob", "put", "@-", stdin=b"bytes")
    assert server("blob", "get", stored["hash"], "--raw").out == "bytes"
    assert server.document("state", "get", "demiurge/Demiurge@1", "--key", "c1")["title"] == "First"
    assert server.document("journal", "verify")["ok"]
    assert server.document("trace", sent["event_hash"])
    assert server.document("replay", "--check")["ok"]
    assert server.document("doubts", "ls")["doubts"] == []
    assert "core__get_current_time" in server("tools", "ls", "--all").out
    assert "demiurge/Demiurge@1" in server("defs", "ls", "--kind", "module").out
    assert json.loads(server("manifest", "get").out)["toolset"]
    found = server.document("tools", "call", "core__get_current_time", '{"timezone": "UTC"}')
    assert found["ok"]


def test_the_token_says_who_calls(server: Server) -> None:
    made = server.document("tokens", "add", "user:eve", "--role", "viewer")
    refused = server("event", "send", CHAT, json.dumps(CREATED), "--json", token=made["token"])
    assert (refused.status, refused.document["error"]["code"]) == (1, "role_missing")
    assert server.document("chat", "ls", token=made["token"])["chats"] == []
    server.document("tokens", "revoke", made["id"])
    gone = server("chat", "ls", "--json", token=made["token"])
    assert (gone.status, gone.document["error"]["code"]) == (1, "unauthorized")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "words",
    [
        ("init",),
        ("doctor",),
        ("serve",),
        ("fork", "elsewhere"),
        ("secrets", "ls"),
        ("secrets", "set", "llm/api"),
        ("connections", "add", "github"),
        ("connections", "revoke", "x"),
        ("manifest", "adopt", "--yes"),
        ("losses", "accept", "--reason", "x"),
    ],
)
def test_commands_of_a_folder_say_so(server: Server, words: tuple[str, ...]) -> None:
    refused = server(*words)
    assert refused.status == 2
    assert "run it on the server's machine" in refused.err


def test_options_of_opening_are_the_servers(server: Server) -> None:
    refused = server("chat", "--message", "x", "--model", "other")
    assert refused.status == 2
    assert "`demiurge serve`" in refused.err.replace(f" -w {server.url}", "")


def test_a_token_names_the_caller_in_a_folder_too(demiurge: Run, world: Path) -> None:
    demiurge("init")
    made = demiurge("tokens", "add", "user:eve", "--role", "viewer", "--json").document
    refused = demiurge("--token", made["token"], "event", "send", CHAT, json.dumps(CREATED), "--json")
    assert refused.document["error"]["code"] == "role_missing"
    wrong = demiurge("--token", "dmg_wrong", "chat", "ls", "--json")
    assert wrong.document["error"]["code"] == "unauthorized"


def test_the_token_of_init_is_that_of_the_user_and_stands_nowhere(server: Server, world: Path) -> None:
    headers = {"authorization": f"Bearer {server.token}"}
    found = httpx.get(f"{server.url}/api/session", headers=headers, timeout=60).json()
    assert (found["actor"], found["roles"]) == ("user", ["user"])
    files = [path for path in world.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if server.token.encode() in path.read_bytes()]
    again = server.run("init", "--json").document
    assert (again["created"], "token" in again) == (False, False)
