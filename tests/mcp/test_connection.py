"""A connection apart from a server: why one could not be reached, the logs of calls, changes that are announced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp_types import INVALID_PARAMS, PromptReference

from demiurge.mcp import connection
from demiurge.mcp.connection import ServerConnection, _reason
from demiurge.mcp.elicitation import LiveCalls
from demiurge.mcp.flow import CallNote, current_note
from mcp import MCPError

GREET: Any = SimpleNamespace(label="prompt greet")
MODERN, OLDER = "2026-07-28", "2025-11-25"


class Process:
    def __init__(self, code: int | None = None, log: str = "") -> None:
        self._code, self.log = code, log

    async def exit_code(self) -> int | None:
        return self._code


def http(status: int | None, problem: str = "") -> Any:
    return SimpleNamespace(last_status=status, last_problem=problem)


REFUSED = "The server refused the connection with the status {}. Check its headers, or its connection."
NO_SERVER = "There is no MCP server at this address: it answered with the status {}."


@pytest.mark.parametrize(
    ("process", "http", "why"),
    [
        (Process(0), None, "The server's program ended at its start, with the exit code 0."),
        (Process(-9), None, "The server's program ended at its start, with the exit code -9."),
        (Process(), None, "The server does not speak the protocol."),
        (None, None, "The server does not speak the protocol."),
        (None, http(None), "The server does not speak the protocol."),
        (None, http(503, "Nothing listens at x:1."), "The server can't be reached. Nothing listens at x:1."),
        *((None, http(status), REFUSED.format(status)) for status in (401, 403)),
        *((None, http(status), NO_SERVER.format(status)) for status in (404, 405, 410, 501)),
        *((None, http(status), f"The server answered with the status {status}.") for status in (400, 402, 500)),
    ],
)
async def test_a_server_that_could_not_be_reached_is_said_with_the_reason(process: Any, http: Any, why: str) -> None:
    assert await _reason(process, http) == why


class Client:
    """Stands in for the SDK's client. `answers`: what each request is answered with, or an error to raise; `changes`:
    for each time that it listens, how many changes come, or an error."""

    def __init__(self, version: str = MODERN, *, answers: Any = (), changes: Any = (), **can: Any) -> None:
        self.protocol_version = version
        declared = {"tools": None, "prompts": None, "resources": None, **can}
        self.server_capabilities = SimpleNamespace(
            **{
                name: SimpleNamespace(list_changed=value) if value is not None else None
                for name, value in declared.items()
            }
        )
        self.server_info: Any = SimpleNamespace(name="fix\nture", version="1\u200b")
        self.instructions: str | None = None
        self.session = self
        self.asked: list[Any] = []
        self._answers, self._changes = list(answers), list(changes)

    async def send_request(self, request: Any, form: Any, *, progress_callback: Any) -> Any:
        self.asked.append((request, form, progress_callback, current_note()))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def complete(self, *asked: Any) -> Any:
        self.asked.append(asked)
        return "proposed"

    @asynccontextmanager
    async def listen(self, **wanted: bool) -> AsyncIterator[Any]:
        self.asked.append(wanted)
        found = self._changes.pop(0)
        if isinstance(found, Exception):
            raise found

        async def told() -> AsyncIterator[None]:
            for _ in range(found):
                yield None

        yield told()


def connected(client: Client, *, process: Any = None, notes_sends: bool = True) -> ServerConnection:
    ended = asyncio.Event()
    return ServerConnection(
        cast(Any, client), ended, process, LiveCalls("s"), cast(Any, None), {}, notes_sends=notes_sends
    )


@pytest.mark.parametrize("notes_sends", [True, False])
async def test_a_call_has_its_note_and_its_log_until_it_ends(
    notes_sends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sent` is left to a transport that notes it, and is true at once for a server in this process."""
    monkeypatch.setattr(connection, "request_of", lambda *asked: (asked, "form"))
    for answer in ("an answer", MCPError(INVALID_PARAMS, "no")):
        client = Client(answers=[answer])
        it = connected(client, notes_sends=notes_sends)
        note = CallNote(sent=True)
        asking = it.call(note, cast(Any, "pinned"), {"a": 1}, cast(Any, "progress"), print)
        if isinstance(answer, Exception):
            with pytest.raises(MCPError):
                await asking
        else:
            assert cast(Any, await asking) == "an answer"
        assert client.asked == [(("pinned", {"a": 1}, None, None), "form", "progress", note)]
        assert (note.sent, it._logs, current_note()) == (not notes_sends, {}, None)


async def test_the_answers_to_a_server_s_questions_go_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "request_of", lambda *asked: (asked, "form"))
    client = Client(answers=["done"])
    given: Any = {"seat": {"action": "accept"}}
    await connected(client).call(
        CallNote(), cast(Any, "pinned"), {}, cast(Any, None), print, input_responses=given, request_state="s"
    )
    assert client.asked[0][0] == ("pinned", {}, given, "s")


@pytest.mark.parametrize(("given", "sent"), [({}, None), ({"tone": "warm"}, {"tone": "warm"})])
async def test_a_completion_is_asked_with_the_arguments_given_so_far(given: dict[str, str], sent: Any) -> None:
    client, about = Client(), PromptReference(name="greet")
    assert cast(Any, await connected(client).complete(about, "who", "A", given)) == "proposed"
    assert client.asked == [(about, {"name": "who", "value": "A"}, sent)]


@pytest.mark.parametrize("has_info", [True, False])
async def test_a_listing_has_the_server_s_own_words_cut_and_in_one_line(
    has_info: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read_definitions(_client: Any) -> Any:
        return (GREET,), ["a problem"]

    monkeypatch.setattr(connection, "read_definitions", read_definitions)
    client = Client()
    client.instructions = "x" * (connection._MAX_INSTRUCTIONS + 1) if has_info else None
    client.server_info = client.server_info if has_info else None
    found: Any = await connected(client).list_tools()
    assert (found.server_name, found.server_version) == (("fix ture", "1<U+200B>") if has_info else ("", ""))
    assert found.instructions == "x" * (connection._MAX_INSTRUCTIONS if has_info else 0)
    assert (found.definitions, found.protocol, found.problems) == ((GREET,), MODERN, ("a problem",))


async def test_a_connection_knows_its_protocol_its_log_and_its_end() -> None:
    it = connected(Client(OLDER), process=Process(log="its words"))
    assert (it.protocol, it.is_open, it.log, it.asks_during_calls) == (OLDER, True, "its words", True)
    it.ended.set()
    assert not it.is_open
    assert (connected(Client()).log, connected(Client()).asks_during_calls) == ("", False)


async def watched(client: Client, monkeypatch: pytest.MonkeyPatch) -> int:
    """Returns how many changes were told until the watch ended."""
    monkeypatch.setattr(connection, "_LISTEN_AGAIN_S", 0)
    told = 0

    def on_change() -> None:
        nonlocal told
        told += 1

    async with asyncio.timeout(20):
        await connected(client).watch(on_change)
    return told


NO_MORE = MCPError(INVALID_PARAMS, "no more")


@pytest.mark.parametrize(
    "can", [{"tools": True}, {"prompts": True}, {"resources": True}, {"tools": True, "prompts": False}]
)
async def test_the_lists_whose_changes_a_server_tells_are_listened_to(
    can: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(changes=[2, 0, RuntimeError("broke"), TimeoutError(), 1, NO_MORE], **can)
    assert await watched(client, monkeypatch) == 5, "three changes, and two breaks in which some may have been missed"
    wanted = {f"{name}_list_changed": can.get(name, False) for name in ("tools", "prompts", "resources")}
    assert client.asked == [wanted] * 6


@pytest.mark.parametrize(("version", "can"), [(OLDER, {"tools": True}), (MODERN, {}), (MODERN, {"tools": False})])
async def test_a_server_that_tells_no_changes_on_request_is_not_listened_to(
    version: str, can: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(version, changes=[NO_MORE], **can)
    assert (await watched(client, monkeypatch), client.asked) == (0, [])
