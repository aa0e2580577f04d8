"""The catalog text of a turn: which requests carry it, and in which place."""

from __future__ import annotations

from tests.apps.demiurge.test_reducer import Chat, read

from demiurge.values import canonical_json
from demiurge.values.refs import Ref


def catalog(chat: Chat, text: str) -> Ref:
    return chat.put(canonical_json.encode({"role": "system", "content": text, "prompt_tools": {}}))


def with_system(chat: Chat) -> Ref:
    system: Ref = chat.manifest.settings["system_ref"]
    return system


def test_the_catalog_follows_the_system_message_in_every_request_of_the_turn() -> None:
    chat = Chat()
    offered = catalog(chat, "Tool Catalog")
    said = chat.say("go", catalog_ref=offered)
    assert chat.requests[-1]["message_refs"][-2:] == [offered, said]
    chat.answer("", read("a"))
    [call] = chat.tools
    chat.result(call)
    assert len(chat.requests) == 2
    assert [refs.index(offered) for refs in (request["message_refs"] for request in chat.requests)] == [
        request["message_refs"].index(said) - 1 for request in chat.requests
    ]
    assert chat.turn["catalog_ref"] == offered


def test_a_catalog_is_for_its_own_turn_alone() -> None:
    chat = Chat()
    first, second = catalog(chat, "first"), catalog(chat, "second")
    chat.say("1", catalog_ref=first)
    chat.answer("1")
    chat.say("2", catalog_ref=second)
    assert first not in chat.requests[-1]["message_refs"]
    assert second in chat.requests[-1]["message_refs"]
    chat.answer("2")
    chat.say("3")
    assert not {first, second} & set(chat.requests[-1]["message_refs"]), "a message without one has none"
    assert chat.turn.get("catalog_ref") is None


def test_the_system_message_comes_first() -> None:
    chat = Chat(settings={"system_ref": "sha256:" + "5" * 64})
    offered = catalog(chat, "Tool Catalog")
    said = chat.say("go", catalog_ref=offered)
    assert chat.requests[-1]["message_refs"] == [with_system(chat), offered, said]


def test_the_window_of_turns_does_not_count_the_catalog() -> None:
    chat = Chat(settings={"window_turns": 1})
    offered = catalog(chat, "Tool Catalog")
    for text in ("1", "2"):
        said = chat.say(text, catalog_ref=offered)
        assert chat.requests[-1]["message_refs"] == [with_system(chat), offered, said]
        chat.answer(text)
