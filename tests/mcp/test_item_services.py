"""Completions of a pinned item, whole: what a server proposes, what is left of it, and each refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CompleteResult,
    Completion,
    PromptReference,
    ResourceTemplateReference,
)

from demiurge.errors import Conflict, Unavailable
from demiurge.mcp import item_services
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.item_services import complete, updates
from demiurge.mcp.supervisor import SupervisedServer
from mcp import MCPError

PROMPT = SimpleNamespace(kind="prompt", name="greet", uri=None, label="prompt greet", pin="sha256:a")
RESOURCE = SimpleNamespace(kind="resource", name="log", uri="file:///log", label="resource log", pin="sha256:b")
TEMPLATE = SimpleNamespace(kind="template", name="page", uri="file:///{page}", label="template page", pin="sha256:c")


class Server:
    """Stands in for a supervised server that lists `pinned`, or nothing. `answer` is what its connection gives or
    raises; `told`: the changes of each connection that follows a resource, in order."""

    def __init__(
        self, pinned: Any, answer: Any = None, *, lists: Any = "pinned", told: list[list[Any]] | None = None
    ) -> None:
        self.settings = SimpleNamespace(limits=SimpleNamespace(timeout_s=0.2))
        self.asked: list[Any] = []
        self.slots = 0
        self.is_closed = False
        self.open_connection: Any = self
        self._answer, self._told = answer, told or []
        self._listed = pinned if lists == "pinned" else lists

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        self.slots += 1
        yield
        self.slots -= 1

    async def fresh_listing(self) -> Any:
        return SimpleNamespace(find=lambda label: self._listed if label == getattr(self._listed, "label", "") else None)

    async def complete(self, *asked: Any) -> CompleteResult:
        assert self.slots == 1
        self.asked.append(asked)
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is None:
            await asyncio.sleep(60)
        return cast(CompleteResult, self._answer)

    async def updates(self, uri: str) -> AsyncGenerator[str, None]:
        self.asked.append(uri)
        for each in self._told.pop(0):
            if isinstance(each, Exception):
                raise each
            yield each


def proposed(*values: str, total: int | None = None, more: bool | None = None) -> CompleteResult:
    return CompleteResult(completion=Completion(values=list(values), total=total, has_more=more))


async def values_of(server: Server, pinned: Any = PROMPT) -> dict[str, Any]:
    given = {"tone": "warm"}
    return await complete(cast(SupervisedServer, server), cast(ToolDefinition, pinned), "name", "A", given)


async def test_a_prompt_is_completed_with_the_arguments_given_so_far() -> None:
    server = Server(PROMPT, proposed("Ada", "Alan", total=9, more=True))
    assert await values_of(server) == {"values": ["Ada", "Alan"], "total": 9, "has_more": True}
    assert server.asked == [(PromptReference(name="greet"), "name", "A", {"tone": "warm"})]
    assert server.slots == 0


async def test_a_template_is_completed_by_its_address() -> None:
    server = Server(TEMPLATE, proposed())
    assert await values_of(server, TEMPLATE) == {"values": [], "total": None, "has_more": None}
    assert server.asked[0][0] == ResourceTemplateReference(uri="file:///{page}")


async def test_a_hundred_values_of_1024_characters_are_left_without_hidden_characters() -> None:
    found = await values_of(Server(PROMPT, proposed("A\u200bda", "x" * 1025, *(str(n) for n in range(99)))))
    assert len(found["values"]) == 100
    assert found["values"][:2] == ["Ada", "x" * 1024]
    assert found["values"][-1] == "97"


async def test_a_server_without_completions_proposes_nothing() -> None:
    server = Server(PROMPT, MCPError(METHOD_NOT_FOUND, "no such method"))
    assert await values_of(server) == {"values": [], "total": None, "has_more": None}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (MCPError(INVALID_PARAMS, "secret words"), "The server answered the completion with an error."),
        (None, "The server gave no valid completion in time."),
        (RuntimeError("secret words"), "The server gave no valid completion in time."),
        (OSError("secret words"), "The server gave no valid completion in time."),
    ],
)
async def test_an_error_or_silence_is_said_without_words_of_the_server(answer: Any, why: str) -> None:
    with pytest.raises(Unavailable) as refused:
        await values_of(Server(PROMPT, answer))
    assert (refused.value.code, refused.value.message) == ("no_completion", why)


@pytest.mark.parametrize("listed", [None, SimpleNamespace(label="prompt greet", pin="sha256:other")])
async def test_an_item_that_is_not_listed_as_pinned_is_not_asked_for(listed: Any) -> None:
    server = Server(PROMPT, proposed("Ada"), lists=listed)
    with pytest.raises(Conflict) as refused:
        await values_of(server)
    said = "The server lists another prompt than the one that is trusted."
    assert (refused.value.code, refused.value.message, server.asked) == ("quarantined", said, [])


async def test_a_server_that_ended_gives_no_completion() -> None:
    server = Server(PROMPT, proposed("Ada"))
    server.open_connection = None
    with pytest.raises(Unavailable) as refused:
        await values_of(server)
    assert (refused.value.code, refused.value.message) == ("server_unavailable", "The server ended.")


async def followed(server: Server, pinned: Any, uri: str, most: int = 10) -> list[str]:
    told = []
    async for kind in updates(cast(SupervisedServer, server), cast(ToolDefinition, pinned), uri):
        told.append(kind)
        if len(told) == most:
            break
    return told


@pytest.mark.parametrize(
    ("pinned", "uri"),
    [(PROMPT, "file:///log"), (RESOURCE, "file:///log/"), (TEMPLATE, "http:///x")],
)
async def test_an_address_of_no_pinned_resource_is_not_followed(pinned: Any, uri: str) -> None:
    server = Server(pinned)
    with pytest.raises(Conflict) as refused:
        await followed(server, pinned, uri)
    assert (refused.value.code, refused.value.message) == ("no_item", "The address is none of this resource.")
    assert server.asked == []


async def test_a_new_connection_counts_as_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_services, "_AGAIN_S", 0)
    server = Server(
        RESOURCE, told=[["following", "updated"], [RuntimeError("ended")], ["following"], [], ["following"]]
    )
    assert await followed(server, RESOURCE, "file:///log", 4) == ["following", "updated", "updated", "updated"]
    assert server.asked == ["file:///log"] * 5


@pytest.mark.parametrize("is_closed", [False, True])
async def test_changes_that_are_not_told_are_refused(is_closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first word of a server, and once it was stopped."""
    monkeypatch.setattr(item_services, "_AGAIN_S", 0)
    server = Server(TEMPLATE, told=[["following"] if is_closed else [], [MCPError(INVALID_PARAMS, "secret words")]])
    server.is_closed = is_closed
    with pytest.raises(Unavailable) as refused:
        await followed(server, TEMPLATE, "file:///log")
    said = "The server does not tell changes of this resource."
    assert (refused.value.code, refused.value.message) == ("not_told", said)
