"""`demiurge state get`, `World.state` and `GET /api/state` without a key; words of other programs for verbs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.conftest import Served, provider, served

__all__ = ["provider", "served"]

MODULE = "demiurge/Demiurge@1"


def create(demiurge: Any, chat: str) -> None:
    created = f'{{"$tag":"ChatCreated","$value":{{"chat_id":"{chat}","title":"T","created_at_ms":1}}}}'
    assert demiurge("event", "send", "demiurge/ChatEvent@1", created).status == 0


def test_the_only_cell_of_a_module_needs_no_key_and_several_are_named(demiurge: Any) -> None:
    create(demiurge, "one")
    assert demiurge("state", "get", MODULE).document["title"] == "T"
    assert demiurge("state", "get", MODULE, "--at", "0").status == 1
    create(demiurge, "two")
    several = demiurge("state", "get", MODULE, "--json")
    assert (several.status, several.document["error"]["code"]) == (1, "no_cell")
    assert several.document["error"]["message"] == f"{MODULE} has several cells: say --key with one of: one, two."
    assert demiurge("state", "get", MODULE, "--key", "two").status == 0


async def test_the_only_cell_needs_no_key_over_http_either(served: Served) -> None:
    user = await served.client()
    for chat, status in (("one", 200), ("two", 404)):
        await user.post("/api/chats", json={"chat_id": chat, "title": chat})
        answer = await user.get(f"/api/state/{MODULE}")
        assert answer.status_code == status
    assert answer.json() == {
        "code": "no_cell",
        "message": f"{MODULE} has several cells: say `key` with one of: one, two.",
    }
    assert (await user.get(f"/api/state/{MODULE}", params={"key": "one"})).json()["last_request_id"] == 0
    assert (await user.get(f"/api/state/{MODULE}", params={"key": ""})).status_code == 404


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chat", "list"), "demiurge chat ls"),
        (("chat", "rm", "main"), "demiurge chat delete CHAT_ID"),
        (("tools", "list"), "Did you mean 'ls'?"),
        (("mcp", "remove", "x"), "Did you mean 'rm' or 'untrust'?"),
        (("tokens", "delete"), "Did you mean 'revoke'?"),
        (("tools", "get", "x"), "Did you mean 'show'?"),
        (("blob", "delete"), "No such command 'delete'."),
    ],
)
def test_a_word_of_other_programs_is_answered_with_the_verb(words: tuple[str, ...], said: str, demiurge: Any) -> None:
    done = demiurge(*words)
    assert (done.status, said in done.err) == (2, True), done.err
