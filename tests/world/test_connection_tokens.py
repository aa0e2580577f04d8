"""Tokens of a login are renewed once for all tasks, stored before use, and given up when the server refuses."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import bytes_below, find_values
from tests.login_server import LoginServer, browse, serving_logins

from demiurge.bootstrap.secrets import open_vault
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.oauth.flow import LoginRequest, log_in
from demiurge.errors import DemiurgeError, NotFound, Unavailable
from demiurge.tools.connections.credentials import Credentials
from demiurge.values.clock import FixedClock, SystemEntropy
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens

ROOT = Path(__file__).parents[2]
START_MS = 1_000_000_000_000
STATE: dict[str, Any] = {
    "provider": "tracker",
    "credential_type": "oauth2",
    "tenant": "",
    "scopes": [],
    "tools": None,
    "expires_at_ms": None,
}


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with serving_logins() as running:
        yield running


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START_MS * 1_000_000)


def stored_in(home: str | Path) -> ConnectionCredentials:
    return ConnectionCredentials(open_vault({"HOME": str(home)}), "world_1")


def make_tokens(home: str | Path, clock: FixedClock) -> ConnectionTokens:
    return ConnectionTokens(stored_in(home), GuardedHttp(), clock, SystemEntropy())


@pytest.fixture
async def tokens(tmp_path: Path, server: LoginServer, clock: FixedClock) -> ConnectionTokens:
    """Tokens of the connection c-1, of a login that was made a moment ago; they live for an hour."""
    made = await log_in(GuardedHttp(), LoginRequest(server.resource), browse, clock, SystemEntropy())
    kept = make_tokens(tmp_path, clock)
    kept.stored.put("c-1", STATE, made.credentials, SystemEntropy(), made.login)
    return kept


def renewals(server: LoginServer) -> list[str]:
    """Returns the refresh tokens that the server was shown, in order."""
    asked = server.asked("/token")
    return [seen.form["refresh_token"] for seen in asked if seen.form["grant_type"] == "refresh_token"]


def later(clock: FixedClock, seconds: float) -> None:
    clock.advance(int(seconds * 1e9))


async def failed(tokens: ConnectionTokens, refused: Credentials | None = None) -> DemiurgeError:
    with pytest.raises(DemiurgeError) as told:
        await tokens.current("c-1", STATE, refused)
    return told.value


async def test_tokens_are_renewed_a_minute_before_their_end(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock
) -> None:
    later(clock, 3539)
    assert (await tokens.current("c-1", STATE)).access_token.reveal() == "canary-ACCESS-1"
    later(clock, 1)
    assert (await tokens.current("c-1", STATE)).access_token.reveal() == "canary-ACCESS-2"
    assert tokens.stored.get("c-1", STATE).credentials.access_token.reveal() == "canary-ACCESS-2"
    [asked] = [seen for seen in server.asked("/token") if seen.form["grant_type"] == "refresh_token"]
    assert asked.form == {
        "grant_type": "refresh_token",
        "refresh_token": "canary-REFRESH-1",
        "resource": server.resource,
        "client_id": "registered-1",
    }
    later(clock, 3600)
    assert (await tokens.current("c-1", STATE)).access_token.reveal() == "canary-ACCESS-3"
    assert renewals(server) == ["canary-REFRESH-1", "canary-REFRESH-2"]


async def test_twenty_calls_ask_the_server_once(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock, tmp_path: Path
) -> None:
    later(clock, 3600)
    others = [tokens, make_tokens(tmp_path, clock)]
    found = await asyncio.gather(*(others[n % 2].current("c-1", STATE) for n in range(20)))
    assert {each.access_token.reveal() for each in found} == {"canary-ACCESS-2"}
    assert renewals(server) == ["canary-REFRESH-1"]
    assert [path for path in tmp_path.rglob("*") if path.suffix == ".renewal"] == []


async def test_refused_tokens_are_renewed_although_they_have_not_ended(
    tokens: ConnectionTokens, server: LoginServer
) -> None:
    first = await tokens.current("c-1", STATE)
    found = await asyncio.gather(*(tokens.current("c-1", STATE, first) for _ in range(3)))
    assert {each.access_token.reveal() for each in found} == {"canary-ACCESS-2"}
    assert renewals(server) == ["canary-REFRESH-1"]


async def test_a_server_that_keeps_the_refresh_token_gets_it_again(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock
) -> None:
    server.token = {"refresh_token": None}
    server.scopes = "read"
    for _ in range(2):
        later(clock, 3600)
        server.refresh_tokens.add("canary-REFRESH-1")
        await tokens.current("c-1", STATE)
    assert renewals(server) == ["canary-REFRESH-1"] * 2
    login = tokens.stored.get("c-1", STATE).login
    assert login is not None
    assert login.scopes == ("read",)


async def test_a_refusal_needs_a_person_and_says_the_command(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock
) -> None:
    server.refresh_tokens.clear()
    later(clock, 3550)
    still = await tokens.current("c-1", STATE)
    assert still.access_token.reveal() == "canary-ACCESS-1", "it has not ended yet"
    assert tokens.is_over(tokens.stored.get("c-1", STATE))
    later(clock, 50)
    for _ in range(2):
        error = await failed(tokens)
        assert (error.code, "`demiurge connections login c-1`" in error.message) == ("login_needed", True)
        assert "invalid_grant" in error.message
        assert find_values(server.secrets(), error.message) == []
    assert len(renewals(server)) == 1, "a refused token is not tried again"
    assert tokens.stored.get("c-1", STATE).credentials.refresh_token is None


async def test_a_token_without_a_refresh_token_is_used_to_its_end(
    tmp_path: Path, server: LoginServer, clock: FixedClock
) -> None:
    server.token = {"refresh_token": None}
    made = await log_in(GuardedHttp(), LoginRequest(server.resource), browse, clock, SystemEntropy())
    tokens = make_tokens(tmp_path, clock)
    tokens.stored.put("c-1", STATE, made.credentials, SystemEntropy(), made.login)
    later(clock, 3599)
    assert (await tokens.current("c-1", STATE)).access_token.reveal() == "canary-ACCESS-1"
    later(clock, 1)
    assert (await failed(tokens)).code == "login_needed"
    assert renewals(server) == []


async def test_a_server_that_is_away_is_asked_again_later(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock
) -> None:
    server.answers["/token"] = (503, {}, b"")
    later(clock, 3550)
    assert (await tokens.current("c-1", STATE)).access_token.reveal() == "canary-ACCESS-1"
    later(clock, 50)
    error = await failed(tokens)
    assert (error.code, "Try again later" in error.message) == ("connection_unavailable", True)
    assert not tokens.is_over(tokens.stored.get("c-1", STATE))
    del server.answers["/token"]
    assert (await tokens.current("c-1", STATE)).access_token.reveal() == "canary-ACCESS-2"


@pytest.mark.parametrize("body", [b"[" * 60_000, b"x" * 100_000, b'{"token_type": "mac", "access_token": "a"}'])
async def test_a_lying_answer_to_a_renewal_changes_nothing(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock, body: bytes
) -> None:
    server.answers["/token"] = (200, {}, body)
    later(clock, 3600)
    assert (await failed(tokens)).code == "connection_unavailable"
    assert tokens.stored.get("c-1", STATE).credentials.access_token.reveal() == "canary-ACCESS-1"


async def test_an_error_that_is_no_text_is_told_by_its_status(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock
) -> None:
    server.answers["/token"] = (400, {}, b'{"error": {"code": "invalid_grant"}}')
    later(clock, 3600)
    error = await failed(tokens)
    assert (error.code, "status 400" in error.message) == ("connection_unavailable", True)


async def test_a_refresh_token_goes_to_no_other_host(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock
) -> None:
    with serving_logins() as other:
        server.answers["/token"] = (307, {"location": f"{other.url}/token"}, b"")
        later(clock, 3600)
        assert (await failed(tokens)).code == "connection_unavailable"
        assert other.seen == []


async def test_a_cancelled_call_does_not_lose_new_tokens(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock
) -> None:
    later(clock, 3600)
    asked, goes_on = asyncio.Event(), asyncio.Event()
    loop, answer = asyncio.get_running_loop(), server._token

    def slow(seen: Any) -> Any:
        loop.call_soon_threadsafe(asked.set)
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result()
        return answer(seen)

    server.answers["/token"] = slow
    call = asyncio.create_task(tokens.current("c-1", STATE))
    await asked.wait()
    call.cancel()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert tokens.stored.get("c-1", STATE).credentials.access_token.reveal() == "canary-ACCESS-2"


async def test_revoked_tokens_are_revoked_at_the_server_and_removed_here(
    tokens: ConnectionTokens, server: LoginServer
) -> None:
    assert await tokens.end("c-1", STATE)
    sent = [(seen.form["token"], seen.form["token_type_hint"]) for seen in server.asked("/revoke")]
    assert sent == [("canary-REFRESH-1", "refresh_token"), ("canary-ACCESS-1", "access_token")]
    assert (server.access_tokens, server.refresh_tokens, tokens.stored.ids()) == (set(), set(), frozenset())
    with pytest.raises(NotFound):
        await tokens.current("c-1", STATE)


async def test_a_server_that_does_not_revoke_leaves_no_tokens_here(
    tokens: ConnectionTokens, server: LoginServer
) -> None:
    server.answers["/revoke"] = (500, {}, b"")
    with pytest.raises(DemiurgeError, match="did not revoke"):
        await tokens.end("c-1", STATE)
    assert tokens.stored.ids() == frozenset()


async def test_nothing_of_a_renewal_is_logged(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    later(clock, 3600)
    await tokens.current("c-1", STATE)
    server.refresh_tokens.clear()
    later(clock, 3600)
    error = await failed(tokens)
    assert find_values(server.secrets(), caplog.text, repr(error), *bytes_below(tmp_path)) == []


async def run_child(home: Path, clock: FixedClock, fault: str = "") -> tuple[int | None, str]:
    """Renews the tokens in a process of its own; what it printed."""
    code = (
        "import asyncio, sys; from tests.world import test_connection_tokens as t; asyncio.run(t.child(*sys.argv[1:]))"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(home), str(clock.now_ns())),
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "DEMIURGE_FAULTS": fault,
        },
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode().strip()


async def child(home: str, now_ns: str) -> None:
    try:
        found = await make_tokens(home, FixedClock(int(now_ns))).current("c-1", STATE)
    except Unavailable as error:
        print(error.code)
    else:
        print(len(found.access_token.reveal()), found.expires_at_ms)


async def test_two_processes_ask_the_server_once(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock, tmp_path: Path
) -> None:
    later(clock, 3600)
    both = await asyncio.gather(run_child(tmp_path, clock), run_child(tmp_path, clock))
    assert both[0] == both[1] == (0, f"{len('canary-ACCESS-2')} {START_MS + 2 * 3600_000}")
    assert renewals(server) == ["canary-REFRESH-1"]


async def test_a_kill_between_rotation_and_storing_needs_a_login_and_tells_no_lie(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock, tmp_path: Path
) -> None:
    later(clock, 3600)
    status, said = await run_child(tmp_path, clock, "oauth.renewed=kill")
    assert (status, said, renewals(server)) == (-signal.SIGKILL, "", ["canary-REFRESH-1"])
    assert find_values(server.secrets(), *bytes_below(tmp_path)) == []
    assert await run_child(tmp_path, clock) == (0, "login_needed")
    assert (await failed(tokens)).code == "login_needed"
    assert renewals(server) == ["canary-REFRESH-1"] * 2


async def test_a_kill_while_the_new_tokens_are_written_leaves_one_of_the_two(
    tokens: ConnectionTokens, server: LoginServer, clock: FixedClock, tmp_path: Path
) -> None:
    later(clock, 3600)
    status, _ = await run_child(tmp_path, clock, "file.after_rename=kill")
    assert status == -signal.SIGKILL
    assert (await tokens.current("c-1", STATE)).access_token.reveal() == "canary-ACCESS-2"
    assert renewals(server) == ["canary-REFRESH-1"]
