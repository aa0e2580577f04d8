"""`demiurge connections add --oauth`, `login`, `revoke`: a person logs in with a browser, and no token is shown."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.canaries.search import bytes_below, find_values
from tests.cli.conftest import Processes, Run
from tests.login_server import LoginServer, serving_logins

from demiurge.bootstrap.secrets import open_vault
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with serving_logins(lifetime_s=0) as running:
        yield running


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The links that were opened in the browser of a machine with windows, whose person agrees to everything."""
    opened: list[str] = []

    def visit(url: str) -> bool:
        opened.append(url)
        urllib.request.urlopen(url).read()
        return True

    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setattr(webbrowser, "open", visit)
    return opened


def test_a_person_logs_in_with_a_browser(
    demiurge: Run, server: LoginServer, browser: list[str], tmp_path: Path
) -> None:
    words = ("connections", "add", "--oauth", server.resource, "--scope", "read", "--tool", "my_issues")
    done = demiurge(*words, "--chat", "main", "--json", "-vv")
    assert done.status == 0, done
    assert (done.document["provider"], done.document["url"]) == (None, server.resource)
    made = done.document["id"]
    [link] = browser
    assert link in done.err
    assert "within 5 minutes (Ctrl-C stops)" in done.err
    shown = demiurge("connections", "ls")
    assert all(word in shown.out for word in (made, "127.0.0.1", "usable", "my_issues", "main"))
    again = demiurge("connections", "login", made, "--scope", "write")
    assert again.out == f"{made} has new tokens. Its scopes: read, write.\n"
    [one] = demiurge("connections", "ls", "--json").document["connections"]
    assert (one["scopes"], one["expires_at_ms"]) == (["read", "write"], None)
    ended = demiurge("connections", "revoke", made, "--log-json", "-vv")
    assert ended.out == f"{made} is revoked, also at the server of its login.\n"
    said = [text for each in (done, shown, again, ended) for text in (each.out, each.err)]
    exported = demiurge("journal", "export").out
    assert find_values(server.secrets(), *said, exported, *bytes_below(tmp_path)) == []


def test_a_person_reads_which_server_gets_the_answer_of_a_login_at_another_host(
    demiurge: Run, server: LoginServer, browser: list[str]
) -> None:
    told = "127.0.0.1 asks you to log in at localhost, and gets the answer."
    assert told not in demiurge("connections", "add", "--oauth", server.resource).err
    address = f"http://localhost:{urlsplit(server.url).port}/authorize"
    server.server_metadata = {"authorization_endpoint": address}
    done = demiurge("connections", "add", "--oauth", server.resource)
    assert (done.status, told in done.err, "Log in at localhost with this link" in done.err) == (0, True, True)


def test_a_connection_whose_login_was_ended_is_listed(demiurge: Run, server: LoginServer, browser: list[str]) -> None:
    server.token = {"refresh_token": None}
    made = demiurge("connections", "add", "tracker", "--oauth", server.resource, "--json").document
    assert made["provider"] == "tracker"
    assert "login_needed" in demiurge("connections", "ls").out
    server.token, server.lifetime_s = {}, 3600
    assert demiurge("connections", "login", made["id"]).status == 0
    assert "usable" in demiurge("connections", "ls").out
    server.answers["/revoke"] = (500, {}, b"")
    ended = demiurge("connections", "revoke", made["id"])
    assert (ended.status, "may still be valid at their server" in ended.err) == (0, True)


def test_scopes_that_a_server_missed_are_listed(demiurge: Run, server: LoginServer, browser: list[str]) -> None:
    server.lifetime_s = 3600
    world_id = demiurge("init", "--json").document["world_id"]
    made = demiurge("connections", "add", "--oauth", server.resource, "--json").document["id"]
    state = demiurge("state", "get", "sys/Connection@1", "--key", made, "--json").document
    stored = ConnectionCredentials(open_vault(os.environ), world_id)
    tokens = ConnectionTokens(stored, GuardedHttp(), SystemClock(), SystemEntropy())
    asyncio.run(tokens.want(made, state, ("write",)))
    shown = demiurge("connections", "ls")
    assert f"{made} lacks these scopes: write. `demiurge connections login {made}` asks for them." in shown.out
    assert demiurge("connections", "login", made).out == f"{made} has new tokens. Its scopes: write.\n"


def test_the_secret_of_a_client_is_taken_from_the_environment(
    demiurge: Run, server: LoginServer, browser: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIENT_SECRET", "canary-SECRET")
    words = ("connections", "add", "--oauth", server.resource, "--client-id", "mine", "--env", "CLIENT_SECRET")
    done = demiurge(*words)
    assert (done.status, find_values(server.secrets(), done.out, done.err)) == (0, [])
    [asked] = server.asked("/token")
    assert asked.headers["authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["add"], 2, "Name a provider, or log in with --oauth URL."),
        (["add", "tracker", "--client-id", "a"], 2, "need --oauth URL"),
        (["add", "--oauth", "https://a.example", "--username", "ada"], 2, "can't go with --oauth"),
        (["add", "--oauth", "http://a.example"], 1, "no https address"),
        (["add", "--oauth", "https://a.example", "--env", "NOT_SET"], 1, "NOT_SET is not set"),
        (["add", "--oauth", "https://a.example", "--expires-at", "soon"], 1, "'soon' is no time"),
        (["login", "conn_1"], 1, "There is no connection conn_1"),
    ],
)
def test_a_wrong_login_command_is_explained(
    demiurge: Run, environment: dict[str, str], words: list[str], status: int, said: str
) -> None:
    demiurge("init")
    done = demiurge("connections", *words)
    assert (done.status, said in done.err) == (status, True), done


def start(process: Processes, server: LoginServer) -> tuple[subprocess.Popen[str], str]:
    """Starts a login without a browser; returns the process and its link."""
    running = process.start("connections", "add", "--oauth", server.resource, "--no-browser")
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("http"):
            return running, line.strip()
    raise AssertionError(process.finish(running))


def test_without_a_browser_the_link_is_printed_and_waited_for(
    process: Processes, server: LoginServer, environment: dict[str, Any]
) -> None:
    running, link = start(process, server)
    with urllib.request.urlopen(link) as page:
        assert "close this page" in page.read().decode()
    done = process.finish(running)
    assert (done.status, done.out.startswith("conn_")) == (0, True), done


def test_ctrl_c_ends_the_wait_and_leaves_nothing(process: Processes, server: LoginServer, tmp_path: Path) -> None:
    running, _ = start(process, server)
    running.send_signal(signal.SIGINT)
    done = process.finish(running)
    assert (done.status, done.err) == (1, "\nerror: Stopped.\n"), done
    assert server.asked("/token") == []
    assert [path.name for path in tmp_path.rglob("vault*")] == []
