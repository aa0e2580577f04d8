"""The token of a connection goes to its MCP server alone; it is renewed once if the server refuses it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from tests.canaries.search import find_values, spellings_of
from tests.login_server import LoginServer, serving_logins

from demiurge.errors import InvalidValue, Unavailable
from demiurge.mcp.oauth import ConnectionAuth, auth_of
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.connections.credentials import Credentials

FIRST, SECOND = "canary-FIRST", "canary-SECOND"


class Lender:
    """Lends the first token, and the second when the first was refused; then it raises."""

    def __init__(self, header: str | None = None, renews: bool = True) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self._header, self._renews = header, renews

    async def lend(self, connection_id: str, url: str, refused: Credentials | None = None) -> Credentials:
        self.asked.append((connection_id, url, None if refused is None else refused.access_token.reveal()))
        if refused is not None and not self._renews:
            raise Unavailable("Log in again.", code="login_needed")
        token = FIRST if refused is None else SECOND
        return Credentials(token, header=self._header)

    async def note_refusal(self, connection_id: str, challenge: str) -> tuple[str, ...] | None:
        return ("more", "scopes") if "insufficient_scope" in challenge else None


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with serving_logins() as running:
        running.access_tokens.add(SECOND)
        yield running


def client(auth: ConnectionAuth) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(auth=auth, trust_env=False)


def sent(server: LoginServer, header: str = "authorization") -> list[str | None]:
    return [seen.headers.get(header) for seen in server.seen]


async def test_a_refused_token_is_renewed_and_the_request_is_sent_again_once(server: LoginServer) -> None:
    lender = Lender()
    auth = ConnectionAuth(lender, "c-1", server.resource)
    async with client(auth) as http:
        answer = await http.post(server.resource, json={"id": 1})
        assert (answer.status_code, auth.problem) == (200, "")
        assert sent(server) == [f"Bearer {FIRST}", f"Bearer {SECOND}"]
        assert [seen.form for seen in server.seen] == [{"id": 1}] * 2
        assert lender.asked == [("c-1", server.resource, None), ("c-1", server.resource, FIRST)]
        server.access_tokens.clear()
        answer = await http.post(server.resource, json={"id": 2})
    assert (answer.status_code, len(server.seen)) == (401, 4)
    assert "refused the renewed token" in auth.problem


async def test_a_token_that_cannot_be_renewed_leaves_the_refusal(server: LoginServer) -> None:
    auth = ConnectionAuth(Lender(renews=False), "c-1", server.resource)
    async with client(auth) as http:
        answer = await http.post(server.resource, json={})
    assert (answer.status_code, len(server.seen), auth.problem) == (401, 1, "Log in again.")


async def test_without_a_token_nothing_is_sent(server: LoginServer) -> None:
    class NoLender(Lender):
        async def lend(self, connection_id: str, url: str, refused: Credentials | None = None) -> Credentials:
            raise Unavailable("Revoked.", code="connection_unavailable")

    auth = ConnectionAuth(NoLender(), "c-1", server.resource)
    async with client(auth) as http:
        with pytest.raises(Unavailable) as told:
            await http.post(server.resource, json={})
    assert (told.value.code, server.seen, auth.problem) == ("connection_unavailable", [], "Revoked.")


@pytest.mark.parametrize("header", [None, "X-Key"])
async def test_a_token_is_not_sent_to_another_origin(server: LoginServer, header: str | None) -> None:
    name = (header or "Authorization").lower()
    with serving_logins() as other:
        server.answers["/mcp"] = (307, {"location": f"{other.url}/mcp"}, b"")
        auth = ConnectionAuth(Lender(header), "c-1", server.resource)
        async with client(auth) as http:
            await http.get(f"{other.url}/mcp")
            redirected = (await http.post(server.resource, json={})).next_request
            assert redirected is not None
            await http.send(redirected)
            await http.post(server.resource, json={}, follow_redirects=header is None)
        assert len(other.seen) == (3 if header is None else 2)
        assert find_values([FIRST, SECOND], repr([seen.headers for seen in other.seen])) == []
    assert all(value is not None and FIRST in value for value in sent(server, name))


async def test_missing_scopes_are_told_to_people_and_not_to_a_model(server: LoginServer) -> None:
    server.answers["/mcp"] = (403, {"www-authenticate": 'Bearer error="insufficient_scope", scope="x"'}, b"")
    auth = ConnectionAuth(Lender(), "c-1", server.resource)
    async with client(auth) as http:
        assert (await http.post(server.resource, json={})).status_code == 403
        assert "lacks these scopes: more, scopes. `demiurge connections login c-1`" in auth.problem
        assert "lacks a scope for this: `demiurge connections login c-1`" in auth.public_problem
        server.answers["/mcp"] = (403, {}, b"")
        await http.post(server.resource, json={})
        assert auth.problem == auth.public_problem == "The server does not allow this to the connection c-1."


async def test_tokens_that_were_sent_are_found_in_texts(server: LoginServer) -> None:
    auth = ConnectionAuth(Lender(), "c-1", server.resource)
    assert not auth.leaks(FIRST)
    async with client(auth) as http:
        await http.post(server.resource, json={})
    for token in (FIRST, SECOND):
        assert all(auth.leaks(f"x{text}x") for text in spellings_of(token).values())
    assert not auth.leaks("canary")
    assert find_values([FIRST, SECOND], repr(auth)) == []


def test_only_servers_with_a_connection_have_an_authorization() -> None:
    make = auth_of(Lender())
    assert make(ServerSettings("local", command=("x",))) is None
    assert make(ServerSettings("open", "http", url="https://a.example/mcp")) is None
    found = make(ServerSettings("tracker", "http", url="https://a.example/mcp", connection_id="c-1"))
    assert isinstance(found, ConnectionAuth)
    with pytest.raises(InvalidValue):
        make(ServerSettings("tracker", "http", url="http://a.example/mcp", connection_id="c-1"))
