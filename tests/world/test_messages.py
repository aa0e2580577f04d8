"""Message blobs: what is written is what is read, and what is no message is said to be none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.test_attachments import PNG, WAV

from demiurge.errors import InvalidValue, NotFound
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, parse_ref, ref_of
from demiurge.wire.attachments import attachment
from demiurge.wire.items import Audio, Completion, Image, Item, Message, Opaque, Reasoning, Text, ToolCall, ToolOutput
from demiurge.world.messages import (
    MAX_ATTACHED,
    assistant_blob,
    attachment_refs,
    call_blob,
    expand,
    items_blob,
    tool_blob,
    user_blob,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
RAW = st.fixed_dictionaries({"type": TEXTS, "id": TEXTS})
ITEMS: st.SearchStrategy[Item] = st.one_of(
    st.builds(lambda text: Message("assistant", (Text(text),) if text else ()), TEXTS),
    st.builds(ToolCall, TEXTS, TEXTS, TEXTS),
    st.builds(ToolOutput, TEXTS, TEXTS),
    st.builds(Reasoning, st.lists(TEXTS, max_size=2).map(tuple), st.none() | RAW),
    st.builds(Opaque, RAW),
)


class Store:
    def __init__(self) -> None:
        self.blobs: dict[Ref, bytes] = {}

    def put(self, data: bytes) -> Ref:
        self.blobs[ref_of(data)] = data
        return ref_of(data)

    def get(self, ref: Ref) -> bytes:
        if ref not in self.blobs:
            raise NotFound(f"There is no blob {ref}.")
        return self.blobs[ref]


@given(TEXTS)
def test_a_users_and_a_tools_message_come_back_as_they_were(text: str) -> None:
    assert expand(user_blob(text), Store().get) == [Message("user", (Text(text),))]
    assert expand(user_blob(text, "system"), Store().get) == [Message("system", (Text(text),))]
    assert expand(tool_blob("c1", text), Store().get) == [ToolOutput("c1", text)]


def test_a_message_that_skips_the_tool_catalog_says_so_and_is_sent_like_any_other() -> None:
    skipping = user_blob("Hello", skip_tool_catalog=True)
    assert canonical_json.parse_object(skipping)["skip_tool_catalog"] is True
    assert expand(skipping, Store().get) == expand(user_blob("Hello"), Store().get)
    assert user_blob("Hello", skip_tool_catalog=False) == (
        b'{"content":[{"text":"Hello","type":"text"}],"role":"user"}'
    ), "a message that skips nothing keeps the address that it always had"


@given(st.lists(ITEMS, max_size=5))
def test_an_answer_with_reasoning_comes_back_item_by_item(items: list[Item]) -> None:
    store = Store()
    items = [Reasoning((), {"type": "reasoning"}), *items]
    ref = store.put(items_blob(items, store.put))
    blob = assistant_blob(Completion("", (), "stop", None, tuple(items)), (), ref)
    assert expand(blob, store.get) == items


@given(TEXTS, st.lists(st.builds(ToolCall, TEXTS, TEXTS, TEXTS), max_size=3))
def test_a_plain_answer_comes_back_as_its_text_and_its_calls(text: str, calls: list[ToolCall]) -> None:
    blob = assistant_blob(Completion(text, tuple(calls), "stop", None, tuple(calls)), calls, None)
    said = [Message("assistant", (Text(text),))] if text else []
    assert expand(blob, Store().get) == [*said, *calls]
    assert "items_ref" not in canonical_json.parse_object(blob)


def test_a_call_that_is_invalid_says_so() -> None:
    assert canonical_json.parse_object(call_blob(ToolCall("c", "n", "{", invalid=True)))["invalid"] is True
    assert "invalid" not in canonical_json.parse_object(call_blob(ToolCall("c", "n", "{}")))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["user", "assistant", "text", "image", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "tool_calls", "items_ref", "bytes_ref", "id", "$tag"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["user", "assistant", "tool", None]))
def test_any_json_at_all_is_a_message_or_said_to_be_none(value: Any, role: str | None) -> None:
    if isinstance(value, dict) and role is not None:
        value = {**value, "role": role}
    try:
        expand(canonical_json.encode(value), Store().get)
    except (InvalidValue, NotFound):
        return


@given(JSON)
def test_any_json_at_all_is_a_list_of_items_or_said_to_be_none(value: Any) -> None:
    store = Store()
    ref = store.put(canonical_json.encode(value))
    blob = canonical_json.encode({"role": "assistant", "content": [], "items_ref": ref})
    try:
        expand(blob, store.get)
    except (InvalidValue, NotFound):
        return


def test_an_attachment_that_is_not_there_is_not_found() -> None:
    part = {"type": "image", "mime": "image/png", "bytes_ref": ref_of(b"gone")}
    with pytest.raises(NotFound):
        expand(canonical_json.encode({"role": "user", "content": [part]}), Store().get)


def test_a_message_with_attachments_comes_back_as_it_was() -> None:
    store = Store()
    parts = [attachment(PNG), attachment(WAV)]
    blob = user_blob("Look", attachments=[(part.mime, store.put(part.data)) for part in parts])
    assert expand(blob, store.get) == [Message("user", (Text("Look"), *parts))]
    assert attachment_refs(blob) == (ref_of(PNG), ref_of(WAV))
    assert canonical_json.parse_object(blob)["content"][1] == {
        "type": "image",
        "mime": "image/png",
        "bytes_ref": ref_of(PNG),
    }


def test_a_tools_message_may_hold_text_images_sounds_and_files() -> None:
    store = Store()
    content = [
        {"type": "text", "text": "One "},
        {"type": "image", "mime": "image/png", "bytes_ref": store.put(PNG)},
        {"type": "text", "text": "plot."},
    ]
    blob = canonical_json.encode({"role": "tool", "tool_call_id": "c1", "content": content})
    assert expand(blob, store.get) == [ToolOutput("c1", "One plot.", images=(Image("image/png", PNG),))]
    assert attachment_refs(blob) == (ref_of(PNG),)
    sound = {"type": "audio", "mime": "audio/wav", "bytes_ref": store.put(WAV)}
    file = {"type": "file", "mime": "text/csv", "bytes_ref": ref_of(b"never read"), "size": 10, "name": "a.csv"}
    both = tool_blob("c1", "One song.", [{"kind": part.pop("type"), **part} for part in (sound, file)])
    [output] = expand(both, store.get)
    assert isinstance(output, ToolOutput)
    assert output.files == (Audio("audio/wav", WAV),)
    assert output.content.startswith('One song.\n\n[The result has a file "a.csv" of the type text/csv with 10 bytes.')
    for broken in ({**file, "size": "10"}, {**file, "bytes_ref": "x"}, {**file, "name": 3}):
        with pytest.raises(InvalidValue):
            expand(tool_blob("c1", "", [{"kind": "file", **broken}]), store.get)


@pytest.mark.parametrize(
    ("kind", "mime", "code"),
    [
        ("image", "image/gif", "bad_attachment"),
        ("image", "image/svg+xml", "bad_attachment"),
        ("image", "audio/wav", "bad_message"),
        ("audio", "image/png", "bad_message"),
    ],
)
def test_an_attachment_whose_bytes_are_something_else_is_refused(kind: str, mime: str, code: str) -> None:
    store = Store()
    part = {"type": kind, "mime": mime, "bytes_ref": store.put(PNG)}
    with pytest.raises(InvalidValue) as refused:
        expand(canonical_json.encode({"role": "user", "content": [part]}), store.get)
    assert refused.value.code == code


@given(JSON)
def test_any_json_at_all_attaches_something_or_nothing(value: Any) -> None:
    refs = attachment_refs(canonical_json.encode(value))
    assert list(map(parse_ref, refs)) == list(refs)
    assert attachment_refs(b"no json") == ()


def test_an_attachment_that_is_named_often_is_read_once() -> None:
    store, read = Store(), []

    def get(ref: Ref) -> bytes:
        read.append(ref)
        return store.get(ref)

    ref = store.put(PNG)
    blob = user_blob("Look", attachments=[("image/png", ref)] * MAX_ATTACHED)
    assert len(attachment_refs(blob)) == MAX_ATTACHED
    assert expand(blob, get)
    assert read == [ref]


@pytest.mark.parametrize("role", ["user", "tool"])
def test_a_message_has_so_many_attachments_and_no_more(role: str) -> None:
    store = Store()
    part = {"type": "image", "mime": "image/png", "bytes_ref": store.put(PNG)}
    message = {"role": role, "tool_call_id": "c1", "content": [part] * (MAX_ATTACHED + 1)}
    with pytest.raises(InvalidValue) as refusal:
        expand(canonical_json.encode(message), store.get)
    assert refusal.value.code == "bad_attachment"


@pytest.mark.parametrize("role", ["user", "system"])
def test_only_an_answer_is_read_from_its_items(role: str) -> None:
    """Else a message would be what a blob says that no record names: forks and garbage collection would lose it."""
    store = Store()
    ref = store.put(items_blob([Message("user", (Text("of another chat"),))], store.put))
    blob = canonical_json.encode({"role": role, "content": "mine", "items_ref": ref})
    assert expand(blob, store.get) == [Message(role, (Text("mine"),))]


def test_provider_fields_of_a_call_are_kept_with_the_answer() -> None:
    store = Store()
    raw = {"type": "function_call", "caller": {"type": "program", "caller_id": "p"}}
    items: list[Item] = [ToolCall("c1", "n", "{}", raw=raw), ToolCall("c2", "n", "{}"), ToolOutput("c2", "done")]
    ref = store.put(items_blob(items, store.put))
    calls = [items[0]] if isinstance(items[0], ToolCall) else []
    blob = assistant_blob(Completion("", tuple(calls), "tool_calls", None, tuple(items)), calls, ref)
    assert expand(blob, store.get) == items
