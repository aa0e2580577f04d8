"""The chat reducer of seeds 000 and 001, driven through the kernel: events in, requests and state out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.world.small_world import MAIN, Kernel, chat_manifest

from demiurge.apps.demiurge import MAX_TOKENS, app
from demiurge.apps.demiurge.window import window
from demiurge.tools.errors import ToolErrorCode, failure_answer, failure_text
from demiurge.tools.policy import ToolPolicy
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.values.schema import Schemas
from demiurge.wire.arguments import MAX_CALLS
from demiurge.wire.items import ToolCall
from demiurge.world.effect import failed, succeeded
from demiurge.world.messages import call_blob, tool_blob, user_blob
from demiurge.world.state import OpenIntent

READ, LIST, WRITE = "workspace__read", "workspace__list", "workspace__write"
AUTO, NONE = {"$tag": "Auto", "$value": None}, {"$tag": "None", "$value": None}


class Chat(Kernel):
    """A created chat. `requests` are the ChatRequest events so far."""

    def __init__(self, *, create: bool = True, **manifest: Any) -> None:
        super().__init__(chat_manifest(**manifest), MAIN)
        if create:
            self.chat("ChatCreated", title="First", created_at_ms=7)

    def chat(self, tag: str, **value: Any) -> Any:
        body = {"$tag": tag, "$value": {"chat_id": "main", **value}}
        return self.event(body, schema="demiurge/ChatEvent@1")

    def say(self, text: str, request_id: int | None = None, **over: Any) -> Ref:
        if request_id is None:
            request_id = self.cell["last_request_id"] + 1
        ref = self.put(user_blob(text))
        value = {
            "request_id": request_id,
            "text": text,
            "message_ref": ref,
            "model": "m1",
            "provider": "openai-responses",
            "max_tokens": 64,
            "tools_ref": None,
            "tool_choice": None,
        }
        self.chat("UserMessage", **value | over)
        return ref

    def answer(
        self, text: str = "", *calls: ToolCall, finish_reason: str | None = None, empty: bool | None = None
    ) -> Ref:
        """The model's receipt for the open request."""
        [intent] = [i for i in self.intents if i.kind == "llm.generate"]
        output = self.put(canonical_json.encode({"role": "assistant", "content": [{"type": "text", "text": text}]}))
        self.receipt(
            intent,
            succeeded(
                output_ref=output,
                token_usage={"prompt": 3, "completion": 2},
                cost_cents=1,
                provider_id="p",
                tool_call_refs=[self.put(call_blob(call)) for call in calls] or None,
                output_items_ref=None,
                finish_reason=finish_reason,
                usage_ref=None,
                empty=empty,
                findings_ref=None,
            ),
        )
        self.answer_refused()
        return output

    def answer_refused(self) -> None:
        """Answers what was refused, as the adapter does."""
        while refused := [(intent, intent.refused) for intent in self.intents if intent.refused is not None]:
            intent, why = refused[0]
            told = failure_answer(ToolErrorCode(why["code"]), why["message"])
            self.result(intent, failure_text(told), ok=False, code=told["error_code"], message=told["message"])

    def fail_model(self, code: str = "provider_unavailable") -> None:
        [intent] = [i for i in self.intents if i.kind == "llm.generate"]
        self.receipt(intent, failed(code, "It did not answer."))

    def result(
        self,
        intent: OpenIntent,
        content: str = "fine",
        *,
        ok: bool = True,
        code: str = "execution",
        message: str = "",
        view: Any = None,
    ) -> Ref:
        """A tool's receipt."""
        call_id = intent.params["tool_call_id"]
        ref = self.put(tool_blob(call_id, content))
        self.receipt(
            intent,
            succeeded(
                tool_call_id=call_id,
                ok=ok,
                error_code=None if ok else code,
                message=message or content,
                message_ref=ref,
                view_ref=None if view is None else self.put(canonical_json.encode(view)),
                record_ref=self.put(b"{}"),
                replayed=None,
            ),
        )
        return ref

    @property
    def cell(self) -> Mapping[str, Any]:
        assert self.state.cell is not None
        return self.state.cell

    @property
    def turn(self) -> Mapping[str, Any]:
        turn: Mapping[str, Any] = self.cell["turn"]
        return turn

    @property
    def tools(self) -> list[OpenIntent]:
        """Calls that may run."""
        return [intent for intent in self.intents if intent.kind == "tool.call" and intent.refused is None]

    def events(self, schema: str) -> list[Any]:
        return [r.body["value"] for r in self.records_of("event") if r.body["schema"] == schema]

    @property
    def requests(self) -> list[Any]:
        return self.events("demiurge/ChatRequest@1")

    def messages(self) -> list[tuple[int, str, Ref]]:
        return [(m["request_id"], m["role"], m["message_ref"]) for m in self.cell["messages"]]

    def roles(self) -> list[str]:
        return [role for _, role, _ in self.messages()]

    def outputs(self) -> list[dict[str, Any]]:
        """What the model is told about refused and failed calls."""
        found = []
        for _, role, ref in self.messages():
            if role == "tool":
                body = canonical_json.parse_object(self.blobs[ref])
                found.append(canonical_json.parse_object(body["content"]) | {"id": body["tool_call_id"]})
        return found


def read(path: str, call_id: str = "c1", name: str = READ) -> ToolCall:
    return ToolCall(call_id, name, canonical_json.encode({"path": path}).decode())


# -- seed 001: message append, request id, result handling ------------------------------------------------------------


def test_a_chat_is_created_once_and_the_first_wins() -> None:
    chat = Chat()
    assert (chat.cell["title"], chat.cell["created_at_ms"], chat.cell["last_request_id"]) == ("First", 7, 0)
    chat.chat("ChatCreated", title="Second", created_at_ms=8)
    assert chat.cell["title"] == "First"
    [refused] = chat.events("demiurge/ChatFailed@1")
    assert (refused["chat_id"], refused["code"], refused["round"]) == ("main", "chat_exists", 0)


@pytest.mark.parametrize(
    "content", [b"[]", b'""', b'[{"type":"text","text":""}]', b'[{"type":"text","text":""},{"type":"text","text":""}]']
)
def test_a_message_without_content_is_refused(content: bytes) -> None:
    chat = Chat()
    chat.say("", message_ref=chat.put(b'{"role":"user","content":' + content + b"}"))
    [refused] = chat.events("demiurge/ChatFailed@1")
    assert (refused["code"], refused["message"]) == ("bad_message", "The message is empty.")
    assert (chat.cell["turn"], chat.roles()) == (None, [])


def test_a_new_title_takes_the_place_of_the_old_one_and_touches_no_turn() -> None:
    chat = Chat()
    chat.say("Hello")
    before = chat.cell
    chat.chat("ChatRenamed", title="Second")
    assert chat.cell == {**before, "title": "Second"}


def test_the_first_message_dates_the_chat_and_a_later_one_does_not() -> None:
    chat = Chat()
    chat.say("Hello")
    first = chat.cell["first_message_at_ms"]
    assert first is not None
    chat.chat("TurnCancelled", request_id=1)
    chat.say("Again", request_id=2)
    assert chat.cell["first_message_at_ms"] == first


def test_a_message_takes_a_chat_from_the_archive() -> None:
    chat = Chat()
    chat.chat("ChatArchived", archived=True)
    assert chat.cell["archived"] is True
    chat.say("Hello")
    assert chat.cell.get("archived") is None


def test_renaming_a_chat_that_was_never_created_is_chat_unknown() -> None:
    chat = Chat(create=False)
    chat.chat("ChatRenamed", title="Second")
    [refused] = chat.events("demiurge/ChatFailed@1")
    assert (refused["code"], chat.state.cell) == ("chat_unknown", None)


def test_stopping_a_chat_that_was_never_created_is_chat_unknown() -> None:
    chat = Chat(create=False)
    chat.chat("TurnCancelled", request_id=1)
    assert [refused["code"] for refused in chat.events("demiurge/ChatFailed@1")] == ["chat_unknown"]


def test_a_choice_of_no_value_may_be_written_as_the_empty_object_of_the_seed() -> None:
    """Seed 000 says `Auto { }`."""
    chat = Chat()
    chat.say("x", tool_choice={"$tag": "Auto", "$value": {}})
    assert chat.requests[-1]["tool_choice"] == AUTO


def test_a_user_message_is_appended_and_the_model_is_asked() -> None:
    chat = Chat()
    ref = chat.say("Hello")
    assert chat.messages() == [(1, "user", ref)]
    assert chat.cell["last_request_id"] == 1
    [request] = chat.requests
    assert request == {
        "chat_id": "main",
        "request_id": 1,
        "round": 1,
        "message_refs": [chat.manifest.settings["system_ref"], ref],
        "model": "m1",
        "provider": "openai-responses",
        "temperature": "0",
        "max_tokens": 64,
        "tools_ref": None,
        "tool_choice": None,
    }


def test_state_keeps_refs_and_not_texts() -> None:
    chat = Chat()
    chat.say("a very telling text")
    chat.answer("another telling text")
    assert "telling text" not in str([dict(m) for m in chat.cell["messages"]])
    assert "telling text" not in str({k: v for k, v in chat.cell.items() if k != "messages"})


def test_an_answer_is_appended_with_its_usage_and_ends_the_turn() -> None:
    chat = Chat()
    asked = chat.say("Hello")
    output = chat.answer("Hi")
    assert chat.messages() == [(1, "user", asked), (1, "assistant", output)]
    last = chat.cell["messages"][-1]
    assert (last["token_usage"], last["cost_cents"]) == ({"prompt": 3, "completion": 2}, 1)
    assert chat.turn["status"] == "done"
    assert not chat.state.is_open


def test_a_second_message_sends_the_whole_conversation() -> None:
    chat = Chat()
    one = chat.say("one")
    answer = chat.answer("1")
    two = chat.say("two")
    assert chat.requests[-1]["message_refs"][1:] == [one, answer, two]


@pytest.mark.parametrize("request_id", [0, 1])
def test_a_request_id_that_was_had_is_refused(request_id: int) -> None:
    chat = Chat()
    chat.say("one")
    chat.answer("1")
    chat.say("again", request_id)
    assert chat.events("demiurge/ChatFailed@1")[-1]["code"] == "request_stale"
    assert chat.roles() == ["user", "assistant"]
    assert chat.turn["status"] == "done"


def test_request_ids_may_have_gaps() -> None:
    chat = Chat()
    chat.say("one", 5)
    assert chat.cell["last_request_id"] == 5


def test_a_message_while_the_turn_goes_on_is_refused_as_busy() -> None:
    chat = Chat()
    chat.say("one")
    chat.say("two")
    refused = chat.events("demiurge/ChatFailed@1")[-1]
    assert (refused["code"], refused["request_id"], refused["round"]) == ("chat_busy", 2, 0)
    assert (chat.turn["status"], chat.cell["last_request_id"]) == ("model", 1)
    chat.answer("1")
    chat.say("two")
    assert chat.turn["request_id"] == 2


def test_a_message_to_a_chat_that_was_never_created_is_chat_unknown() -> None:
    chat = Chat(create=False)
    chat.say("hello?", 1)
    assert chat.state.cell is None
    [refused] = chat.events("demiurge/ChatFailed@1")
    assert (refused["chat_id"], refused["request_id"], refused["code"]) == ("main", 1, "chat_unknown")
    chat.chat("ChatCreated", title="Late", created_at_ms=1)
    chat.say("hello", 1)
    assert chat.turn["status"] == "model"


def test_a_provider_error_fails_the_turn_with_its_code_and_the_next_message_goes_on() -> None:
    chat = Chat()
    chat.say("one")
    chat.fail_model("rate_limit")
    assert (chat.turn["status"], chat.turn["code"], chat.turn["message"]) == (
        "failed",
        "rate_limit",
        "It did not answer.",
    )
    chat.say("two")
    assert chat.turn["status"] == "model"


def test_a_denied_model_call_fails_the_turn() -> None:
    chat = Chat(grants={"cap_llm": {"params": {"models": ["other"]}}})
    chat.say("one")
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", "model_not_allowed")


def test_model_settings_of_a_message_become_the_chats() -> None:
    chat = Chat()
    tools = chat.put(b"{}")
    chat.say("one", tools_ref=tools, tool_choice={"$tag": "Required", "$value": None})
    chat.answer("1")
    chat.say("two")
    assert (chat.requests[0]["tool_choice"]["$tag"], chat.requests[-1]["tool_choice"]) == ("Required", AUTO)
    assert chat.requests[-1]["tools_ref"] == tools
    chat.answer("2")
    other = chat.put(b"{ }")
    chat.say("three", tools_ref=other, model="m2", max_tokens=9)
    last = chat.requests[-1]
    assert (last["tools_ref"], last["model"], last["max_tokens"]) == (other, "m2", 9)


# -- seed 000: tool call validation/allowlist + result append + re-request flow ---------------------------------------


def test_a_proposed_call_is_asked_for_by_a_plan() -> None:
    chat = Chat()
    chat.say("read it")
    output = chat.answer("", read("a"))
    assert chat.messages()[-1] == (1, "assistant", output)
    [asked] = chat.events("demiurge/ToolCallRequested@1")
    assert asked == {
        "chat_id": "main",
        "request_id": 1,
        "round": 1,
        "tool_call_id": "c1",
        "tool": READ,
        "call_ref": ref_of(call_blob(read("a"))),
    }
    assert [i.params["tool"] for i in chat.tools] == [READ]
    assert chat.turn["status"] == "tools"
    assert len(chat.requests) == 1


def test_a_result_is_appended_and_the_model_is_asked_again_with_auto() -> None:
    chat = Chat()
    chat.say("read it", tool_choice={"$tag": "Required", "$value": None})
    output = chat.answer("", read("a"))
    result = chat.result(chat.tools[0])
    assert chat.messages()[-2:] == [(1, "assistant", output), (1, "tool", result)]
    outcome = chat.cell["messages"][-1]["tool"]
    assert (outcome["id"], outcome["name"], outcome["ok"]) == ("c1", READ, True)
    request = chat.requests[-1]
    assert (request["round"], request["tool_choice"]) == (2, AUTO)
    assert request["message_refs"][-2:] == [output, result]
    chat.answer("It says so.")
    assert chat.turn["status"] == "done"
    assert chat.cell["tool_choice"] is None


def test_several_calls_are_answered_together_and_then_followed_up_once() -> None:
    chat = Chat()
    chat.say("read them")
    chat.answer("", read("a", "c1"), read("b", "c2"), read("c", "c3"))
    one, two, three = chat.tools
    third, first = chat.result(three), chat.result(one)
    assert (len(chat.requests), chat.roles()) == (1, ["user", "assistant"])
    second = chat.result(two)
    assert len(chat.requests) == 2
    assert [ref for _, role, ref in chat.messages() if role == "tool"] == [first, second, third], "in call order"


def test_a_call_outside_the_allowlist_is_answered_and_never_asked_for() -> None:
    chat = Chat(policy=ToolPolicy(allowed_tools=(READ,)))
    chat.say("x")
    chat.answer("", read("a", "c1", WRITE), read("a", "c2", "rm_rf"))
    assert chat.tools == []
    assert chat.events("demiurge/ToolCallRequested@1") == []
    assert [(o["id"], o["ok"], o["error_code"]) for o in chat.outputs()] == [
        ("c1", False, "policy_denied"),
        ("c2", False, "policy_denied"),
    ]
    assert chat.outputs()[0]["message"] == chat.outputs()[1]["message"], "said the same whether it exists or not"
    assert chat.requests[-1]["round"] == 2


def test_a_refused_call_waits_for_the_others_of_its_turn() -> None:
    chat = Chat(policy=ToolPolicy(allowed_tools=(READ,)))
    chat.say("x")
    chat.answer("", read("a", "c1", WRITE), read("a", "c2"))
    assert len(chat.requests) == 1
    chat.result(chat.tools[0])
    assert len(chat.requests) == 2


def test_arguments_that_are_not_one_json_object_are_answered_invalid_json() -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", ToolCall("c1", READ, '{"path": ', invalid=True))
    assert chat.outputs()[0]["error_code"] == "invalid_json"
    assert chat.tools == []


@pytest.mark.parametrize("arguments", ['{"path": ', '["a"]', '{"path": 1}', "{}", '{"path": "a", "more": 1}'])
def test_only_a_call_whose_arguments_fit_is_said_to_be_sound(arguments: str) -> None:
    """Seed 000: the reducer validates and normalises; `ToolCallRequested` is for approved calls."""
    chat = Chat()
    chat.say("x")
    chat.answer("", ToolCall("c1", READ, arguments))
    assert chat.events("demiurge/ToolCallRequested@1") == []
    [refused] = chat.events("demiurge/ToolCallRefused@1")
    code = "validation" if arguments.endswith("}") else "invalid_json"
    assert (refused["tool"], refused["code"]) == (READ, code)
    assert [o["error_code"] for o in chat.outputs()] == [code]


def test_a_dotted_name_is_normalised() -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", read("a", "c1", "workspace.read"), read("a", "c2"))
    assert [event["tool"] for event in chat.events("demiurge/ToolCallRequested@1")] == [READ]
    assert [event["code"] for event in chat.events("demiurge/ToolCallRefused@1")] == ["repeated_call"]


def test_a_manifest_of_before_has_refused_calls_answered_in_the_step() -> None:
    """A user's own folder may be a copy of an app without the event; the model is told the same."""
    chat = Chat()
    schemas = chat.manifest.schemas
    kept = {name: schemas.get(name) for name in schemas.names if name != "demiurge/ToolCallRefused@1"}
    chat.manifest = replace(chat.manifest, schemas=Schemas(kept))
    chat.say("x")
    chat.answer("", read("a", "c1", "nope"))
    assert (chat.turn["round"], chat.tools) == (2, [])
    [text] = [
        canonical_json.parse_object(chat.blobs[ref])["content"] for _, role, ref in chat.messages() if role == "tool"
    ]
    assert text == '{"ok":false,"error_code":"policy_denied","message":"This tool is not allowed here."}'


def test_an_identical_call_of_the_same_turn_is_refused() -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", read("a", "c1"), ToolCall("c2", READ, '{ "path" : "a" }'), read("b", "c3"))
    assert [i.params["tool_call_id"] for i in chat.tools] == ["c1", "c3"]
    for intent in chat.tools:
        chat.result(intent, '{"ok": true}')
    assert [o["error_code"] for o in chat.outputs() if "error_code" in o] == ["repeated_call"]
    chat.answer("", read("a", "c4"))
    assert chat.outputs()[-1]["error_code"] == "repeated_call"


def test_a_call_may_be_repeated_in_another_turn() -> None:
    chat = Chat()
    for _ in range(2):
        chat.say("x")
        chat.answer("", read("a"))
        chat.result(chat.tools[0])
        chat.answer("done")
    assert len(chat.events("demiurge/ToolCallRequested@1")) == 2


def test_rounds_are_limited_and_the_last_request_forbids_tools() -> None:
    chat = Chat(settings={"max_tool_rounds": 2})
    chat.say("x")
    for number in range(2):
        chat.answer("", read(f"{number}"))
        chat.result(chat.tools[0], '{"ok": true}')
    assert len(chat.events("demiurge/ToolCallRequested@1")) == 2
    chat.answer("", read("one more"))
    assert chat.tools == []
    assert chat.outputs()[-1]["error_code"] == "rounds_exceeded"
    assert chat.requests[-1]["tool_choice"] == NONE
    chat.answer("", read("and another"))
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", "rounds_exceeded")
    assert chat.roles().count("assistant") == chat.roles().count("tool") == 4
    assert not chat.state.is_open


def test_a_model_that_obeys_after_rounds_exceeded_ends_the_turn_well() -> None:
    chat = Chat(settings={"max_tool_rounds": 0})
    chat.say("x")
    chat.answer("", read("a"))
    assert chat.outputs()[0]["error_code"] == "rounds_exceeded"
    chat.answer("Then without.")
    assert chat.turn["status"] == "done"


def test_more_calls_than_a_turn_may_have_fail_it_and_leave_the_history_whole() -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", *(read(f"{n}", f"c{n}") for n in range(MAX_CALLS + 1)))
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", "too_many_calls")
    assert chat.roles() == ["user"]
    chat.say("y")
    chat.answer("", *(read(f"{n}", f"c{n}") for n in range(MAX_CALLS)))
    assert len(chat.tools) == MAX_CALLS


def test_a_failed_result_goes_to_the_model() -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", read("a"))
    result = chat.result(chat.tools[0], "There is no file a.", ok=False)
    outcome = chat.cell["messages"][-1]["tool"]
    assert (outcome["ok"], outcome["error_code"], outcome["message"]) == (False, "execution", "There is no file a.")
    assert chat.requests[-1]["message_refs"][-1] == result


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("unknown_outcome", "unknown_outcome"),
        ("cancelled", "cancelled"),
        ("approval_rejected", "approval_rejected"),
        ("effect_failed", "execution"),
        ("receipt_invalid", "execution"),
        ("no_adapter", "unavailable"),
        ("no_grant", "policy_denied"),
        ("tool_not_allowed", "policy_denied"),
        ("damaged", "execution"),
    ],
)
def test_an_effect_that_failed_is_told_to_the_model_in_a_closed_code(code: str, told: str) -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", read("a"))
    chat.receipt(chat.tools[0], failed(code, "As it was."))
    [output] = chat.outputs()
    assert (output["ok"], output["error_code"], output["message"]) == (False, told, "As it was.")
    assert chat.requests[-1]["round"] == 2


def test_a_call_that_the_cap_denies_is_answered() -> None:
    chat = Chat(grants={"cap_tool": {"params": {"tools": []}}})
    chat.say("x")
    chat.answer("", read("a"))
    assert chat.outputs()[0]["error_code"] == "policy_denied"
    assert chat.turn["round"] == 2


# -- fences -----------------------------------------------------------------------------------------------------------

RESULTS = [
    ("ChatResult", {"output_ref": ref_of(b"x"), "token_usage": {"prompt": 0, "completion": 0}, "cost_cents": 0}),
    ("ChatFailed", {"code": "c", "message": "m"}),
    ("ToolResult", {"tool_call_id": "c1", "result_ref": ref_of(b"x"), "ok": True, "message": "forged"}),
    ("ToolFailed", {"tool_call_id": "c1", "code": "execution", "message": "forged"}),
]


@pytest.mark.parametrize(("tag", "value"), RESULTS)
@pytest.mark.parametrize("stage", ["model", "tools"])
def test_results_from_outside_are_refused(tag: str, value: dict[str, Any], stage: str) -> None:
    chat = Chat()
    chat.say("x")
    if stage == "tools":
        chat.answer("", read("a"))
    before = chat.cell
    chat.chat(tag, request_id=1, round=1, **value)
    assert chat.cell == before
    [refused] = [event for event in chat.events("demiurge/ChatFailed@1") if event["code"] == "origin_not_allowed"]
    assert (refused["request_id"], refused["round"]) == (0, 0)
    assert tag in refused["message"]


@pytest.mark.parametrize(("tag", "value"), RESULTS)
@pytest.mark.parametrize(("request_id", "turn_round"), [(1, 1), (2, 0), (2, 2), (3, 1)])
def test_stale_results_change_nothing(tag: str, value: dict[str, Any], request_id: int, turn_round: int) -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("done")
    chat.say("y")
    before = chat.cell
    body = {"$tag": tag, "$value": {"chat_id": "main", "request_id": request_id, "round": turn_round, **value}}
    chat.event(body, schema="demiurge/ChatEvent@1", cause={"unit": "x", "seq": 1, "index": 0})
    assert chat.cell == before


def test_a_result_for_a_call_of_another_id_or_for_an_answered_one_changes_nothing() -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", read("a", "c1"), read("b", "c2"))
    chat.result(chat.tools[0])
    before = chat.turn
    value = {"chat_id": "main", "request_id": 1, "round": 1, "result_ref": ref_of(b"x"), "ok": True, "message": "m"}
    for call_id in ("c1", "c9"):
        body = {"$tag": "ToolResult", "$value": {**value, "tool_call_id": call_id}}
        chat.event(body, schema="demiurge/ChatEvent@1", cause={"unit": "x", "seq": 1, "index": 0})
        assert chat.turn == before


# -- cancelling -------------------------------------------------------------------------------------------------------


def test_cancelling_answers_the_open_calls_so_that_no_call_is_without_its_output() -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("", read("a", "c1"), read("b", "c2"))
    slow, done = chat.tools[0], chat.tools[1]
    chat.result(done, '{"ok": true}')
    chat.chat("TurnCancelled", request_id=1)
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", "cancelled")
    assert [(o["id"], o.get("error_code")) for o in chat.outputs()] == [("c1", "cancelled"), ("c2", None)]
    before = chat.cell
    chat.result(slow)
    assert chat.cell == before, "what comes in late is recorded and changes nothing"
    chat.say("y")
    assert chat.turn["status"] == "model"


def test_cancelling_while_the_model_thinks_makes_its_answer_stale() -> None:
    chat = Chat()
    chat.say("x")
    chat.chat("TurnCancelled", request_id=1)
    chat.answer("too late")
    assert chat.roles() == ["user"]


@pytest.mark.parametrize("request_id", [1, 3])
def test_cancelling_another_turn_changes_nothing(request_id: int) -> None:
    chat = Chat()
    chat.say("x")
    chat.answer("done")
    chat.say("y")
    before = chat.cell
    chat.chat("TurnCancelled", request_id=request_id)
    assert chat.cell == before


def test_cancelling_a_chat_that_is_not_there_changes_nothing() -> None:
    chat = Chat(create=False)
    chat.chat("TurnCancelled", request_id=1)
    assert chat.state.cell is None


# -- failing plans ----------------------------------------------------------------------------------------------------


NOTHING = {"op": "get", "args": [{"ref": "@plan.input"}, "nothing"]}


def test_a_plan_that_fails_fails_the_turn_and_leaves_no_call_without_its_output() -> None:
    def broken(definition: Mapping[str, Any]) -> Mapping[str, Any]:
        if definition["name"] != "demiurge/tool_plan@1":
            return definition
        steps = [s if s["id"] != "tell" else {**s, "value": NOTHING} for s in definition["steps"]]
        return {**definition, "steps": steps}

    chat = Chat(definitions=broken)
    chat.say("x")
    chat.answer("", read("a", "c1"), read("b", "c2"))
    first, second = chat.tools
    chat.result(first)
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", "plan_failed")
    assert [(o["id"], o["error_code"]) for o in chat.outputs()] == [
        ("c1", "unknown_outcome"),
        ("c2", "unknown_outcome"),
    ]
    chat.result(second)
    chat.say("y")
    assert chat.turn["status"] == "model"


# -- window -----------------------------------------------------------------------------------------------------------


def test_the_window_is_whole_turns_and_never_parts_a_call_from_its_output() -> None:
    chat = Chat(settings={"window_turns": 2})
    turns: list[list[Ref]] = []
    for number in range(4):
        turn = [chat.say(f"turn {number}"), chat.answer("", read(f"{number}", "c1"), read(f"{number}b", "c2"))]
        intents = chat.tools
        turn += [chat.result(intent, f"result {number} {intent.id.hex()}") for intent in intents]
        turn.append(chat.answer(f"answer {number}"))
        turns.append(turn)
    last = chat.say("now")
    system = chat.manifest.settings["system_ref"]
    assert chat.requests[-1]["message_refs"] == [system, *turns[-1], last]
    assert chat.requests[0]["message_refs"] == [system, turns[0][0]]


def test_the_window_keeps_a_turn_that_is_longer_than_any_number_of_messages() -> None:
    messages = [{"request_id": 1, "message_ref": ref_of(str(n).encode())} for n in range(100)]
    assert len(window(messages, {"window_turns": 1})) == 100
    assert window([], {"window_turns": 1, "system_ref": "s"}) == ["s"]


# -- the manifest of the app (seeds 000 and 001, Manifest Pieces) -----------------------------------------------------


def test_the_app_has_the_pieces_that_the_seeds_name() -> None:
    manifest = chat_manifest()
    assert manifest.modules["demiurge/Demiurge@1"].key_schema == "demiurge/ChatId@1"
    assert manifest.route("demiurge/ChatEvent@1").key_field == "$value.chat_id"  # type: ignore[union-attr]
    plans = {event: [t.plan for t in triggers] for event, triggers in manifest.triggers.items()}
    assert plans == {
        "demiurge/ChatRequest@1": ["demiurge/chat_plan@1"],
        "demiurge/ToolCallRequested@1": ["demiurge/tool_plan@1"],
        "demiurge/ToolCallRefused@1": ["demiurge/refusal_plan@1"],
        "demiurge/CallRequested@1": ["demiurge/call_plan@1"],
        "demiurge/SampleRequested@1": ["demiurge/sampling_plan@1"],
        "demiurge/TitleRequested@1": ["demiurge/title_plan@1"],
        "sys/ModelRunRequest@1": ["demiurge/model_run_plan@1"],
    }
    assert manifest.secrets["llm/api", 1].bindings[0] == "env:LLM_API_KEY"
    result = manifest.schemas.get("demiurge/ChatResult@1")["record"]
    assert {"tool_call_refs", "output_items_ref"} <= set(result)
    assert app().system_prompt


def test_llm_generate_params_are_normalised_and_cap_checked() -> None:
    """Seed 001, Tests: plan validation."""
    chat = Chat()
    chat.say("Hello")
    [intent] = chat.intents
    assert intent.params["temperature"] == "0"
    assert intent.params["response_format"] is None
    assert intent.params["api_key"] == {"$tag": "secret", "$value": {"alias": "llm/api", "version": 1}}
    refused = Chat(grants={"cap_llm": {"params": {"max_tokens": 63}}})
    refused.say("Hello")
    assert (refused.turn["code"], refused.intents) == ("max_tokens_exceeded", [])


def test_only_the_chat_plan_may_ask_the_model() -> None:
    def other(definition: Mapping[str, Any]) -> Mapping[str, Any]:
        if definition["$kind"] != "defpolicy":
            return definition
        rules = [dict(rule) for rule in definition["rules"]]
        rules[0]["when"] = {**rules[0]["when"], "origin_name": "demiurge/tool_plan@1"}
        return {**definition, "rules": rules}

    chat = Chat(definitions=other)
    chat.say("x")
    assert chat.turn["code"] == "policy_denied"


def test_a_step_that_can_not_be_taken_ends_the_turn() -> None:
    """An answer too large to be taken must not leave the chat waiting for ever."""
    chat = Chat()
    chat.say("x")
    calls = [ToolCall(f"{index}" + "i" * 40_000, "workspace__list", "{}") for index in range(30)]
    chat.answer("", *calls)
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", "invalid_step")
    chat.say("y")
    assert chat.turn["status"] == "model"


# -- answers that say nothing -----------------------------------------------------------------------------------------


def test_an_empty_answer_fails_the_turn_and_counts() -> None:
    chat = Chat()
    chat.say("Hello")
    chat.answer(finish_reason="length", empty=True)
    assert (chat.turn["status"], chat.turn["code"]) == ("failed", "empty_answer")
    assert "64 tokens" in chat.turn["message"]
    last = chat.cell["messages"][-1]
    assert (last["role"], last["token_usage"], last["finish_reason"]) == (
        "assistant",
        {"prompt": 3, "completion": 2},
        "length",
    )
    chat.say("Again")
    assert chat.turn["status"] == "model"


def without_the_new_fields(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """The app as it was before answers said whether they are empty."""
    new = ("finish_reason", "usage_ref", "empty", "findings_ref", "own_max_tokens")
    if definition["name"] == "demiurge/chat_plan@1":
        return {**definition, "steps": [_cut(step, new) for step in definition["steps"]]}
    record = definition.get("type", {}).get("record")
    if record is None:
        return definition
    return {**definition, "type": {"record": {name: form for name, form in record.items() if name not in new}}}


def _cut(step: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    if step["id"] != "tell":
        return step
    variant = step["value"]["variant"]
    fields = {name: form for name, form in variant["value"]["record"].items() if name not in names}
    return {**step, "value": {"variant": {**variant, "value": {"record": fields}}}}


def test_under_an_older_manifest_a_turn_ends_as_it_did() -> None:
    """So that what was recorded under it is computed again as it was."""
    chat = Chat(definitions=without_the_new_fields)
    chat.say("Hello")
    chat.answer(finish_reason="length", empty=True)
    assert chat.turn["status"] == "done"
    assert "finish_reason" not in chat.cell["messages"][-1]
    assert "own_max_tokens" not in chat.cell


def test_the_shipped_manifest_has_the_documented_limit() -> None:
    assert app().root["settings"]["max_tokens"] == MAX_TOKENS == 1024
