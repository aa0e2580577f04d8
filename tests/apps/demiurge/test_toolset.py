"""The chat's toolset and tool choice: what a message brings, what a chat keeps, and how both are cleared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.apps.demiurge.test_reducer import AUTO, LIST, READ, Chat, read

from demiurge.errors import InvalidValue
from demiurge.tools import ToolSpec
from demiurge.tools.ids import FIND_TOOLS
from demiurge.tools.policy import ToolPolicy
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.wire.items import NamedTool, ToolCall, ToolChoice
from demiurge.world.toolset import encode_toolset, narrowed, read_toolset, with_loaded, wording

REQUIRED = {"$tag": "Required", "$value": None}


def toolset(chat: Chat, *names: str, choice: ToolChoice | None = None) -> Ref:
    specs = [chat.manifest.toolset[name] for name in names]
    return chat.put(encode_toolset("openai-responses", specs, choice))


def last_tool_choice(chat: Chat) -> Any:
    return chat.requests[-1]["tool_choice"]


def test_only_what_the_toolset_offers_is_asked_for() -> None:
    chat = Chat()
    chat.say("go", tools_ref=toolset(chat, READ))
    chat.answer("", read("a"), ToolCall("c2", LIST, "{}"))
    assert [event["tool"] for event in chat.events("demiurge/ToolCallRequested@1")] == [READ]


def test_a_dotted_name_is_the_same_tool() -> None:
    chat = Chat()
    entry = canonical_json.parse_object(encode_toolset("openai-responses", [chat.manifest.toolset[READ]]))
    entry["tools"][0]["name"] = "workspace.read"
    chat.say("go", tools_ref=chat.put(canonical_json.encode(entry)))
    chat.answer("", read("a"))
    assert [event["tool"] for event in chat.events("demiurge/ToolCallRequested@1")] == [READ]


@pytest.mark.parametrize("blob", [b"junk", b'{"tools": 7}'])
def test_nothing_runs_under_a_toolset_that_is_none(blob: bytes) -> None:
    chat = Chat()
    chat.say("go", tools_ref=chat.put(blob))
    chat.answer("", read("a"))
    assert chat.events("demiurge/ToolCallRequested@1") == []


def test_the_order_of_choices() -> None:
    chat = Chat()
    chat.say("nothing chosen", tools_ref=toolset(chat, READ))
    assert last_tool_choice(chat) == AUTO
    chat.answer("1")
    chat.chat("ChatTools", tools_ref=toolset(chat, READ, choice="none"), tool_choice=None)
    chat.say("the choice of the chat's toolset")
    assert last_tool_choice(chat) == {"$tag": "None", "$value": None}
    chat.answer("2")
    chat.say("also beside a toolset that makes none", tools_ref=toolset(chat, READ))
    assert last_tool_choice(chat) == {"$tag": "None", "$value": None}
    chat.answer("2")
    kept = toolset(chat, READ, LIST, choice="none")
    chat.chat("ChatTools", tools_ref=kept, tool_choice=REQUIRED)
    chat.say("the chat's choice")
    assert last_tool_choice(chat) == REQUIRED
    chat.answer("3")
    brought = toolset(chat, READ, LIST, choice=NamedTool(LIST))
    chat.say("the choice of the toolset that comes with the message", tools_ref=brought)
    assert last_tool_choice(chat) == {"$tag": "Tool", "$value": {"name": LIST}}
    chat.answer("4")
    chat.say("the message's own", tools_ref=brought, tool_choice=AUTO)
    assert last_tool_choice(chat) == AUTO
    chat.answer("5")
    chat.say("the chat's again")
    assert (last_tool_choice(chat), chat.requests[-1]["tools_ref"]) == (REQUIRED, kept)


def test_a_chat_keeps_its_own_toolset_and_a_message_narrows_it_for_its_turn() -> None:
    chat = Chat()
    kept, one = toolset(chat, READ, LIST), toolset(chat, READ)
    chat.chat("ChatTools", tools_ref=kept, tool_choice=None)
    chat.say("one tool", tools_ref=one)
    assert chat.requests[-1]["tools_ref"] == one
    chat.answer("", ToolCall("c1", LIST, "{}"))
    assert chat.outputs()[-1]["error_code"] == "not_offered"
    assert chat.requests[-1]["tools_ref"] == one, "also in the rounds that follow"
    chat.answer("1")
    chat.say("both")
    assert chat.requests[-1]["tools_ref"] == kept
    chat.answer("", ToolCall("c2", LIST, "{}"))
    assert [intent.params["tool"] for intent in chat.tools] == [LIST]


def test_a_message_can_not_widen_the_toolset_of_its_chat() -> None:
    chat = Chat()
    chat.chat("ChatTools", tools_ref=toolset(chat, READ), tool_choice=None)
    chat.say("more", tools_ref=toolset(chat, READ, LIST))
    [refused] = chat.events("demiurge/ChatFailed@1")
    assert (refused["code"], LIST in refused["message"]) == ("not_in_toolset", True)
    assert chat.requests == []
    assert chat.turn is None


def test_without_a_toolset_of_its_own_a_chat_takes_that_of_its_last_message() -> None:
    chat = Chat()
    brought = toolset(chat, READ)
    chat.say("1", tools_ref=brought)
    chat.answer("1")
    chat.say("2")
    assert chat.requests[-1]["tools_ref"] == brought
    chat.answer("2")
    wider = toolset(chat, READ, LIST)
    chat.say("3", tools_ref=wider)
    assert chat.requests[-1]["tools_ref"] == wider


@pytest.mark.parametrize("code", ["bad_toolset", "unknown_tool"])
def test_a_toolset_that_is_refused_does_not_become_the_chats(code: str) -> None:
    chat = Chat()
    chat.say("without one before", tools_ref=toolset(chat, LIST))
    chat.fail_model(code)
    assert chat.cell["tools_ref"] is None
    kept = toolset(chat, READ)
    chat.say("good", tools_ref=kept)
    chat.answer("1")
    chat.say("bad", tools_ref=toolset(chat, LIST))
    chat.fail_model(code)
    chat.say("the one before again")
    assert chat.requests[-1]["tools_ref"] == kept
    chat.fail_model(code)
    assert chat.cell["tools_ref"] == kept, "this message brought none"


@pytest.mark.parametrize("blob", [b"junk", b'{"tools": 7}'])
def test_a_blob_that_is_no_toolset_does_not_become_the_chats(blob: bytes) -> None:
    chat = Chat()
    chat.chat("ChatTools", tools_ref=chat.put(blob), tool_choice=None)
    assert [event["code"] for event in chat.events("demiurge/ChatFailed@1")] == ["bad_toolset"]
    assert chat.cell["tools_ref"] is None


def test_a_choice_is_for_one_message_and_its_follow_ups_are_free() -> None:
    chat = Chat()
    chat.say("go", tools_ref=toolset(chat, READ), tool_choice=REQUIRED)
    assert last_tool_choice(chat) == REQUIRED
    chat.answer("", read("a"))
    chat.result(chat.tools[0])
    assert last_tool_choice(chat) == AUTO
    chat.answer("done")
    chat.say("again")
    assert last_tool_choice(chat) == AUTO
    assert chat.cell["tool_choice"] is None


def test_toolset_and_choice_are_cleared() -> None:
    chat = Chat()
    chat.chat("ChatTools", tools_ref=toolset(chat, READ), tool_choice=REQUIRED)
    chat.chat("ChatTools", tools_ref=None, tool_choice=None)
    assert (chat.cell["tools_ref"], chat.cell["tool_choice"]) == (None, None)
    chat.say("go")
    assert (chat.requests[-1]["tools_ref"], last_tool_choice(chat)) == (None, None)


def test_the_toolset_of_an_open_turn_stays() -> None:
    chat = Chat()
    kept = toolset(chat, READ)
    chat.say("go", tools_ref=kept)
    chat.chat("ChatTools", tools_ref=None, tool_choice=None)
    assert chat.cell["tools_ref"] == kept
    assert [event["code"] for event in chat.events("demiurge/ChatFailed@1")] == ["chat_busy"]


def test_a_chat_that_is_not_there_has_no_tools() -> None:
    chat = Chat(create=False)
    chat.chat("ChatTools", tools_ref=None, tool_choice=None)
    assert [event["code"] for event in chat.events("demiurge/ChatFailed@1")] == ["chat_unknown"]


# -- what is too long for the model


@pytest.mark.parametrize("code", ["context_overflow", "content_filter"])
def test_a_message_that_the_model_can_not_be_sent_is_left_out_afterwards(code: str) -> None:
    chat = Chat()
    first = chat.say("Hello")
    answer = chat.answer("Hi")
    chat.say("x" * 1000)
    chat.fail_model(code)
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", code)
    last = chat.say("And now?")
    assert chat.requests[-1]["message_refs"][1:] == [first, answer, last]
    assert [message[0] for message in chat.messages()] == [1, 1, 2, 3]


def test_a_turn_whose_results_are_too_long_is_left_out_afterwards() -> None:
    chat = Chat()
    chat.say("read it")
    chat.answer("", read("a"))
    chat.result(chat.tools[0])
    chat.fail_model("context_overflow")
    last = chat.say("And now?")
    assert chat.requests[-1]["message_refs"][1:] == [last]


def test_a_history_that_is_too_long_gets_shorter() -> None:
    """It may be the whole that is too long: then each failed turn takes the oldest one with it, so the chat goes on."""
    chat = Chat()
    told = []
    for number in range(3):
        told += [chat.say(str(number)), chat.answer(str(number))]
    for _ in range(3):
        chat.say("short")
        chat.fail_model("context_overflow")
    last = chat.say("short again")
    assert chat.requests[-1]["message_refs"][1:] == [*told[4:], last]


def test_loaded_tools_move_from_the_deferred_ones_to_those_that_are_described() -> None:
    specs = {name: ToolSpec(name, f"Does {name}.", {"type": "object"}) for name in ("a", "b", "c")}
    for provider in ("openai-responses", "openai-chat", "anthropic"):
        blob = encode_toolset(provider, [specs["a"]], deferred=["b", "c"])
        assert read_toolset(blob).deferred == ("b", "c")
        assert narrowed(blob) == {"a", "b", "c"}
        loaded = read_toolset(with_loaded(blob, {"c", "a", "unknown"}, specs))
        assert [name for name, _ in loaded.entries] == ["a", "c"]
        assert loaded.deferred == ("b",)
        assert dict(loaded.entries)["c"] == canonical_json.parse(
            canonical_json.encode(wording(specs["c"], dict(loaded.entries)["a"]))
        )
        whole = with_loaded(blob, {"b", "c"}, specs)
        assert b"deferred" not in whole
        assert narrowed(whole) == {"a", "b", "c"}


def test_a_deferred_tool_that_the_world_has_no_more_is_not_loaded() -> None:
    blob = encode_toolset("openai-chat", [], deferred=["gone"])
    assert narrowed(with_loaded(blob, {"gone"}, {})) == frozenset()


@pytest.mark.parametrize(
    "deferred", ["a", ["a", 1], ["not an id"], ["b", "b"], ["a"]], ids=["text", "number", "no id", "twice", "described"]
)
def test_deferred_tools_are_a_list_of_other_ids(deferred: object) -> None:
    described = json.loads(encode_toolset("openai-chat", [ToolSpec("a", "", {"type": "object"})]))
    with pytest.raises(InvalidValue) as caught:
        read_toolset(canonical_json.encode({**described, "deferred": deferred}))
    assert caught.value.code == "bad_toolset"


def deferring(chat: Chat, described: str, *deferred: str) -> Ref:
    specs = [chat.manifest.toolset[described]]
    return chat.put(encode_toolset("openai-responses", specs, deferred=deferred))


def offered(chat: Chat) -> tuple[list[str], tuple[str, ...]]:
    """Returns the tools that the last request describes, and those that it defers."""
    toolset = read_toolset(chat.blobs[Ref(chat.requests[-1]["tools_ref"])])
    return [name for name, _ in toolset.entries], toolset.deferred


def search(chat: Chat, view: Any, *, ok: bool = True) -> None:
    """Lets the model search, and answers with `view`."""
    chat.answer("", ToolCall("find", FIND_TOOLS, '{"query":"x"}'))
    [intent] = chat.tools
    chat.result(intent, ok=ok, view=view)


def searching_chat(*deferred: str) -> Chat:
    chat = Chat(policy=ToolPolicy((FIND_TOOLS, READ, LIST)))
    chat.say("go", tools_ref=deferring(chat, FIND_TOOLS, *deferred))
    return chat


def test_a_tool_that_a_search_found_is_described_until_the_turn_ends() -> None:
    chat = searching_chat(READ, LIST)
    assert offered(chat) == ([FIND_TOOLS], (READ, LIST))
    search(chat, {"tools": [{"id": LIST}]})
    assert offered(chat) == ([FIND_TOOLS, LIST], (READ,))
    chat.answer("Found.")
    chat.say("and now?", tools_ref=deferring(chat, FIND_TOOLS, READ, LIST))
    assert offered(chat) == ([FIND_TOOLS], (READ, LIST))


@pytest.mark.parametrize("view", [{"tools": [{"id": LIST}]}, {"tools": [{}, 7]}, {"tools": 7}, {}, None], ids=str)
def test_a_search_loads_nothing_that_the_message_did_not_defer(view: Any) -> None:
    chat = searching_chat(READ)
    search(chat, view)
    assert offered(chat) == ([FIND_TOOLS], (READ,))


def test_a_search_that_failed_loads_nothing() -> None:
    chat = searching_chat(READ)
    search(chat, {"tools": [{"id": READ}]}, ok=False)
    assert offered(chat) == ([FIND_TOOLS], (READ,))


def test_the_view_of_another_tool_loads_nothing_and_a_deferred_tool_runs_unsearched() -> None:
    chat = searching_chat(READ, LIST)
    chat.answer("", read("a"))
    [intent] = chat.tools
    chat.result(intent, view={"tools": [{"id": LIST}]})
    assert offered(chat) == ([FIND_TOOLS, READ], (LIST,))
