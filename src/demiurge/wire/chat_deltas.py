"""Joins the chunks of a streamed chat completion into the body of the same answer unstreamed.

Invariant: this module only joins; `openai_chat.decode` alone decides what the result means.

A call's fragments belong together by `index`. Hosts deviate: some leave the index out (then the id decides, and a
fragment without an id continues the latest call), some give two calls the same index (a new id together with a name is
a new call, and so is a name with other arguments once the arguments so far are a whole object), some change the id on
every fragment (an id without a name is no new call), some cut the name in pieces (they join until the arguments begin)
or repeat it.

A finish reason ends the answer so far. Some hosts send one after each call, so text, reasoning or a piece of a call
that comes later opens the answer again, until the next finish reason. A delta that adds nothing (the usage, an empty
text, an empty fragment of a known call) does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from demiurge.wire import fields
from demiurge.wire.arguments import call_name, check_count, is_object

__all__ = ["ChatDeltas", "Shown", "beside", "called"]

_JOINED = ("reasoning_content", "reasoning", "refusal")
_BESIDE = ("extra_content", "provider_specific_fields")
_REPLACED = ("extra_content", "thought_signature")


@dataclass(frozen=True, slots=True)
class Shown:
    """The news in one chunk: text, whether it reasons, and the calls it touches (position, name)."""

    texts: tuple[str, ...] = ()
    thinks: bool = False
    calls: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    beside: dict[str, Any] = field(default_factory=dict)

    def add(self, call_id: str, function: Mapping[str, Any]) -> bool:
        """Adds one fragment. Returns whether it adds to the name."""
        self.id = self.id or call_id
        before = self.name
        name = fields.raw_text(function, "name")
        if name and not self.arguments:
            self.name = name if name.startswith(self.name) else self.name + name
        fragment = _fragment(function)
        if fragment:
            self.arguments.append(fragment)
        return bool(fragment) or self.name != before

    def continues(self, function: Mapping[str, Any]) -> bool:
        """Returns whether a fragment with a name may belong to this call. After a whole object it may not, unless it
        repeats the name or the object was only a placeholder: both joined are no object, so nothing runs twice."""
        fragment = _fragment(function)
        if not fragment or not self.arguments or not self.arguments[-1].endswith("}"):
            return True
        text = "".join(self.arguments)
        return not is_object(text) or (function.get("name") == self.name and text in ("{}", fragment))

    def function(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": "".join(self.arguments)}

    def entry(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": self.function(), **self.beside}


class ChatDeltas:
    """The state of one answer; `started`: a chunk had a choice."""

    def __init__(self) -> None:
        self.started = False
        self._has_ended = False
        self._ends_with_bare_call = False
        self._reopened_by_call = False
        self._pieces = 0
        self._envelope: dict[str, Any] = {}
        self._choice: dict[str, Any] = {"index": 0}
        self._texts: list[str] = []
        self._parts: list[dict[str, Any]] = []
        self._fields: dict[str, Any] = {}
        self._calls: list[_Call] = []
        self._by_index: dict[int, int] = {}
        self._legacy: _Call | None = None

    def add(self, chunk: Mapping[str, Any]) -> Shown:
        """Adds the envelope and the first choice of a chunk; other choices are ignored.

        Raises ProviderError("bad_response") for more than MAX_CALLS calls.
        """
        for key in ("id", "model", "usage", "x_groq"):
            if chunk.get(key):
                self._envelope[key] = chunk[key]
        choice = next((c for c in fields.mappings(chunk, "choices") if c.get("index") in (0, None)), None)
        if choice is None:
            return Shown()
        self.started = True
        for key in ("finish_reason", "error", "usage"):
            if choice.get(key):
                self._choice[key] = choice[key]
        before = self._pieces
        shown = self._add_delta(fields.mapping(choice, "delta") or fields.mapping(choice, "message"))
        grew = bool(self._pieces > before or shown.texts or shown.thinks)
        if self._pieces > before and self._choice.get("finish_reason"):
            self._reopened_by_call = True
        if grew:
            self._has_ended = False
        if choice.get("finish_reason"):
            self._has_ended, self._reopened_by_call = True, False
            self._ends_with_bare_call = grew and self._has_bare_call()
        return shown

    def is_over(self, *, done: bool) -> bool:
        """Returns whether the host wrote the answer to its end; `done`: the stream had its `[DONE]`.

        A call without arguments is ambiguous, since it stands for `{}`. It counts as complete if a finish reason came
        in a later chunk, or in the same chunk and then `[DONE]`. `[DONE]` alone does not complete it, since proxies add
        one to a cut stream. Nor does it complete a call with a fragment after a finish reason, because a host that sent
        one sends another at the end of the next call.
        """
        if self._has_ended:
            return done or not self._ends_with_bare_call
        return done and not self._has_bare_call() and not self._reopened_by_call

    def _has_bare_call(self) -> bool:
        calls = self._calls if self._legacy is None else [*self._calls, self._legacy]
        return any(not call.arguments for call in calls)

    def body(self) -> dict[str, Any]:
        """Returns a `chat.completion` object with one choice."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._texts), **self._fields}
        if self._parts:
            message["content"] = self._parts
        if self._calls:
            message["tool_calls"] = [call.entry() for call in self._calls]
        if self._legacy is not None:
            message["function_call"] = self._legacy.function()
        return {**self._envelope, "choices": [{**self._choice, "message": message}]}

    def _add_delta(self, delta: Mapping[str, Any]) -> Shown:
        texts = [*self._add_content(delta), fields.raw_text(delta, "refusal")]
        for key in _JOINED:
            if fields.raw_text(delta, key):
                self._fields[key] = self._fields.get(key, "") + fields.raw_text(delta, key)
        for key in _REPLACED:
            if delta.get(key):
                self._fields[key] = delta[key]
        details = fields.mappings(delta, "reasoning_details")
        if details:
            _join_details(self._fields.setdefault("reasoning_details", []), details)
        blocks = fields.mappings(delta, "thinking_blocks")
        if blocks:
            _join_blocks(self._fields.setdefault("thinking_blocks", []), blocks)
        thoughts = [part for part in fields.mappings(delta, "content") if part.get("type") != "text"]
        thinks = bool(details or blocks or thoughts or delta.get("reasoning_content") or delta.get("reasoning"))
        return Shown(tuple(text for text in texts if text), thinks, tuple(self._add_calls(delta)))

    def _add_content(self, delta: Mapping[str, Any]) -> Iterator[str]:
        """Adds text, which comes as a string or as parts; once parts came, all content is kept as parts."""
        content = fields.raw_text(delta, "content")
        parts = fields.mappings(delta, "content")
        if content:
            self._texts.append(content)
            if self._parts:
                parts = [{"type": "text", "text": content}]
        elif parts and not self._parts and self._texts:
            self._parts.append({"type": "text", "text": "".join(self._texts)})
        for part in parts:
            _join_part(self._parts, part)
        yield content or "".join(fields.raw_text(part, "text") for part in parts if part.get("type") == "text")

    def _add_calls(self, delta: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
        for entry in fields.mappings(delta, "tool_calls"):
            function = called(entry)
            position = self._position(entry, function)
            call = self._calls[position]
            self._pieces += call.add(fields.raw_text(entry, "id"), function)
            call.beside |= beside(entry)
            if call.name:
                yield position, call_name(call.name)
        function = fields.mapping(delta, "function_call")
        if function.get("name") or function.get("arguments"):  # some hosts send it empty
            self._legacy = self._legacy or _Call()
            self._pieces += self._legacy.add("", function)

    def _position(self, entry: Mapping[str, Any], function: Mapping[str, Any]) -> int:
        """Returns the position in `_calls` of the call that a fragment belongs to; a new call is added."""
        call_id = fields.raw_text(entry, "id")
        index = entry.get("index")
        known: int | None
        if isinstance(index, int):
            known = self._by_index.get(index)
            if known is not None and self._is_new(self._calls[known], call_id, function):
                known = None
        else:
            known = next((at for at, call in enumerate(self._calls) if call_id and call.id == call_id), None)
            if known is None and self._calls and self._goes_on(self._calls[-1], call_id, function):
                known = len(self._calls) - 1
        if known is None:
            known = len(self._calls)
            check_count(known + 1)
            self._calls.append(_Call())
            self._pieces += 1
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    @staticmethod
    def _is_new(call: _Call, call_id: str, function: Mapping[str, Any]) -> bool:
        if not function.get("name") or (call_id and call_id == call.id):
            return False
        return bool(call_id and call.id) or not call.continues(function)

    @staticmethod
    def _goes_on(call: _Call, call_id: str, function: Mapping[str, Any]) -> bool:
        """Returns whether a fragment without an index continues the latest call: it has no name, or repeats the name in
        the middle of the arguments."""
        name = function.get("name")
        return not name or bool(not call_id and name == call.name and call.arguments and call.continues(function))


def called(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the name and arguments in an entry of `tool_calls`; a custom tool's text is its arguments, and seldom an
    object."""
    function = fields.mapping(entry, "function")
    custom = {} if function else fields.mapping(entry, "custom")
    return {"name": custom.get("name"), "arguments": custom.get("input")} if custom else function


def beside(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a host's signature of a call, which the host expects to get back."""
    return {key: entry[key] for key in _BESIDE if entry.get(key)}


def _fragment(function: Mapping[str, Any]) -> str:
    fragment = function.get("arguments")
    return fragment if isinstance(fragment, str) else "" if fragment is None else json.dumps(fragment)


def _join_part(parts: list[dict[str, Any]], part: Mapping[str, Any]) -> None:
    """Joins adjacent text parts, and adjacent thinking parts (Mistral: `thinking` is a list of text parts)."""
    last = parts[-1] if parts else {}
    if part.get("type") == "text" and last.get("type") == "text":
        last["text"] = fields.raw_text(last, "text") + fields.raw_text(part, "text")
    elif part.get("type") == "thinking" and last.get("type") == "thinking":
        pieces = [dict(piece) for piece in fields.mappings(last, "thinking")]
        for piece in fields.mappings(part, "thinking"):
            _join_part(pieces, piece)
        last.update({**part, "thinking": pieces})
    else:
        parts.append(dict(part))


def _join_details(joined: list[dict[str, Any]], details: list[Mapping[str, Any]]) -> None:
    """Joins OpenRouter's `reasoning_details`: fragments of one entry share type and index; their text fields join."""
    for detail in details:
        same = next(
            (e for e in joined if (e.get("type"), e.get("index")) == (detail.get("type"), detail.get("index"))),
            None,
        )
        if same is None or not isinstance(detail.get("index"), int):
            joined.append(dict(detail))
            continue
        for key, value in detail.items():
            if key in ("text", "summary", "data") and isinstance(value, str):
                same[key] = fields.raw_text(same, key) + value
            elif value is not None:
                same[key] = value


def _join_blocks(joined: list[dict[str, Any]], blocks: list[Mapping[str, Any]]) -> None:
    """Joins LiteLLM's `thinking_blocks`: fragments of one block follow each other; its signature ends it."""
    for block in blocks:
        last = joined[-1] if joined else {}
        if block.get("type") != "thinking" or last.get("type") != "thinking" or last.get("signature"):
            joined.append(dict(block))
            continue
        text = fields.raw_text(last, "thinking") + fields.raw_text(block, "thinking")
        last.update({**block, "thinking": text})
