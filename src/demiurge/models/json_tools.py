"""Requests to models without native tool calling, by the JSON tool protocol (`wire.tool_envelope`).

`ask_model` sends the tools of a request as text if the row of its provider says so, and makes an ordinary tool call of
a sound envelope. So policy, approvals, the runner and the records are the same as for any other model.

Invariant: only a whole reply that is one sound envelope with this request's nonce becomes a call that may run. A reply
that looks like an envelope and is none, or that holds the nonce beside other words, becomes an invalid call, which is
refused and recorded; the model reads the reason and may try again while there are rounds. So nobody is shown a nonce as
an answer. The nonce is derived from the key of the request, in a world the
intent's id: a retry has the same nonce, and the id depends on the digests of all messages of the request, so that none
of them can hold it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, get_args

from demiurge.errors import InvalidValue, UsageError
from demiurge.models.local.order import in_natural_order
from demiurge.models.port import LanguageModel, OnEvent
from demiurge.models.providers import provider
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.tools.spec import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire.arguments import replay_object
from demiurge.wire.envelope_text import FINAL_TEXT, call_text, nonce_text, rejection_text, result_text, rules_text
from demiurge.wire.errors import ProviderError
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.items import (
    Audio,
    Completion,
    Delivery,
    Item,
    Message,
    NamedTool,
    Part,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
)
from demiurge.wire.result_parts import describe_parts, fit_parts
from demiurge.wire.rounds import rounds_so_far
from demiurge.wire.tool_envelope import (
    EnvelopeCall,
    EnvelopeTools,
    FinalEnvelope,
    Rejection,
    RejectionCode,
    begins_envelope,
    read_decision,
)

__all__ = ["OtherNames", "ask_model", "nonce_of", "uses_protocol"]

REJECTED: Final = "tool_envelope"
"""The `type` of `ToolCall.raw` in a rejected call."""

_MAX_KEPT = 4_000
"""The most characters of a rejected reply that its call keeps."""

_CODES: Final[Mapping[str, RejectionCode]] = {code: code for code in get_args(RejectionCode)}


def _none(_: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class OtherNames:
    """Other names of tools and of their arguments that an envelope may use, as `EnvelopeTools` has them."""

    tool: Callable[[str], str | None] = _none
    args: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def uses_protocol(provider_name: str) -> bool:
    """Returns whether models of this provider get their tools by the protocol; False for a caller's own provider."""
    try:
        return provider(provider_name).json_tool_protocol
    except UsageError:
        return False


def nonce_of(key: str) -> str:
    """Returns the nonce of the request with this key: 32 hex digits."""
    return _digest("nonce", key)[:32]


async def ask_model(
    model: LanguageModel,
    request: GenerateRequest,
    *,
    on_event: OnEvent | None = None,
    max_rounds: int | None = None,
    names: OtherNames = OtherNames(),
) -> Completion:
    """Returns the model's answer, as `LanguageModel.generate` does. `max_rounds`: how many answers of a turn may call
    tools. Raises InvalidValue if a request by the protocol has no key, or both tools and a response format.

    If the provider rejects a request with images or sounds of tools' results, because its model takes none, the
    request is sent once more with sentences in their place: else the chat could never go on."""
    try:
        return await _ask(model, request, on_event, max_rounds, names)
    except ProviderError as error:
        described = tuple(describe_parts(request.items, ()))
        if error.code != "invalid_request" or described == request.items:
            raise
    key = request.idempotency_key
    again = replace(request, items=described, idempotency_key=None if key is None else f"{key}-described")
    answer = await _ask(model, again, on_event, max_rounds, names)
    return replace(answer, requests=answer.requests + 1)


async def _ask(
    model: LanguageModel, request: GenerateRequest, on_event: OnEvent | None, max_rounds: int | None, names: OtherNames
) -> Completion:
    if not uses_protocol(request.provider):
        return await model.generate(request, on_event=on_event)
    request = replace(request, items=tuple(fit_parts(describe_parts(request.items, provider(request.provider).takes))))
    specs = in_natural_order(_offered(request))
    if not specs:
        answer = await model.generate(_plain(request, *_rendered(request.items)), on_event=on_event)
        return _without_calls(answer)
    if request.idempotency_key is None:
        raise InvalidValue("A request by the JSON tool protocol needs a key.", path="idempotency_key")
    if request.response_format is not None:
        raise InvalidValue(
            "By the JSON tool protocol a request has tools or a response format, not both: leave out one of them.",
            path="response_format",
        )
    nonce = nonce_of(request.idempotency_key)
    tools = EnvelopeTools.of(specs, names.tool, names.args)
    rounds = rounds_so_far(request.items)
    end = nonce_text(
        nonce,
        after_result=rounds > 0,
        must_call=_must_call(request),
        rounds_left=None if max_rounds is None else max_rounds - rounds,
    )
    sent = _plain(request, _system(rules_text(specs)), *_rendered(request.items), _user(Text(end)))
    held = _HeldReply(on_event or _ignore)
    answer = await model.generate(sent, on_event=held.take)
    found = _read(answer, tools, nonce, must_call=_must_call(request) is not None)
    if found is None:
        held.show_rest()
        return answer
    if isinstance(found, FinalEnvelope):
        answer = await _final(model, sent, answer, nonce, on_event)
        found = _prose_with(nonce, answer.text)
        if found is None:
            return answer
    call = _tool_call(found, nonce) if isinstance(found, EnvelopeCall) else _rejected_call(found, answer.text, nonce)
    (on_event or _ignore)(Status("tool_use", call.name))
    return replace(answer, text="", tool_calls=(call,), finish_reason="tool_calls", items=(call,))


def _offered(request: GenerateRequest) -> tuple[ToolSpec, ...]:
    choice = request.tool_choice
    if choice == "none":
        return ()
    if not isinstance(choice, NamedTool):
        return request.specs
    found = tuple(spec for spec in request.specs if spec.name == choice.name)
    if not found:
        raise InvalidValue(f"The tool choice names {choice.name}, which is not among the tools.", path="tool_choice")
    return found


def _must_call(request: GenerateRequest) -> str | None:
    if isinstance(request.tool_choice, NamedTool):
        return request.tool_choice.name
    return "" if request.tool_choice == "required" else None


def _read(
    answer: Completion, tools: EnvelopeTools, nonce: str, *, must_call: bool
) -> EnvelopeCall | FinalEnvelope | Rejection | None:
    if answer.tool_calls:
        return Rejection("tool_call_invalid_format", "native-call")
    found = read_decision(answer.text, tools, nonce) or _prose_with(nonce, answer.text)
    if isinstance(found, EnvelopeCall | FinalEnvelope) and answer.finish_reason in _CUT:
        return Rejection("tool_call_invalid_format", "cut-off")
    if must_call and (found is None or isinstance(found, FinalEnvelope)):
        return Rejection("tool_call_invalid_format", "no-call")
    return found


def _prose_with(nonce: str, text: str) -> Rejection | None:
    """Returns why a reply in words is no answer: it holds the nonce, so it was to be a call or a decision."""
    return Rejection("tool_call_invalid_format", "text-around-object") if nonce in text.lower() else None


_CUT: Final = ("length", "content_filter", "error")


async def _final(
    model: LanguageModel, sent: GenerateRequest, decided: Completion, nonce: str, on_event: OnEvent | None
) -> Completion:
    """Returns the answer in words of a model that decided to call no more tools, with the usage of both requests."""
    items = (*sent.items, Message("assistant", (Text('{"action": "final"}'),)), _user(Text(FINAL_TEXT)))
    again = replace(sent, items=items, idempotency_key=f"{sent.idempotency_key}-final")
    held = _HeldReply(on_event or _ignore)
    answer = await model.generate(again, on_event=held.take)
    if _prose_with(nonce, answer.text) is None:
        held.show_rest()
    return replace(
        _without_calls(answer),
        usage=_usage_of_both(decided.usage, answer.usage),
        delivery=_delivery_of_both(decided.delivery, answer.delivery),
        requests=decided.requests + answer.requests,
    )


def _without_calls(answer: Completion) -> Completion:
    """Returns an answer to a request without tools: calls in the provider's own form, which nobody offered, are
    dropped."""
    if not answer.tool_calls:
        return answer
    return replace(answer, tool_calls=(), items=tuple(item for item in answer.items if not isinstance(item, ToolCall)))


def _usage_of_both(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    costs = (one.cost_micros, other.cost_micros)
    return Usage(
        prompt=one.prompt + other.prompt,
        completion=one.completion + other.completion,
        cached=one.cached + other.cached,
        reasoning=one.reasoning + other.reasoning,
        cache_written=one.cache_written + other.cache_written,
        cost_micros=None if costs[0] is None or costs[1] is None else costs[0] + costs[1],
    )


def _delivery_of_both(one: Delivery | None, other: Delivery | None) -> Delivery | None:
    if one is None or other is None:
        return other
    costs = (one.cost_micros, other.cost_micros)
    return replace(other, cost_micros=None if costs[0] is None or costs[1] is None else costs[0] + costs[1])


def _tool_call(found: EnvelopeCall, nonce: str) -> ToolCall:
    return ToolCall(_call_id(nonce), found.tool, json.dumps(found.args, ensure_ascii=False))


def _rejected_call(found: Rejection, reply: str, nonce: str) -> ToolCall:
    """Returns the call that stands for a rejected reply. It is named after the tool that was asked for, or else after
    the code; its arguments say why it was rejected."""
    why = {"rejected": found.code, "detail": found.detail, "reply": mend_surrogates(reply[:_MAX_KEPT])}
    text = json.dumps(why, ensure_ascii=False)
    return ToolCall(_call_id(nonce), found.tool or found.code, text, invalid=True, raw={"type": REJECTED})


def _call_id(nonce: str) -> str:
    return f"call_{_digest('call', nonce)[:24]}"


def _digest(purpose: str, text: str) -> str:
    return sha256(f"demiurge json tools {purpose}\n{text}".encode()).hexdigest()


def _plain(request: GenerateRequest, *messages: Message) -> GenerateRequest:
    """Returns the request with these messages and without tools. Neighbours of one role become one message, because
    some chat templates refuse two in a row."""
    items: list[Message] = []
    for message in messages:
        if items and items[-1].role == message.role:
            items[-1] = Message(message.role, _joined(items[-1].content, message.content))
        else:
            items.append(message)
    return replace(request, items=tuple(items), specs=(), tool_choice=None)


def _joined(before: Sequence[Part], after: Sequence[Part]) -> tuple[Part, ...]:
    if before and after and isinstance(before[-1], Text) and isinstance(after[0], Text):
        return (*before[:-1], Text(f"{before[-1].text}\n\n{after[0].text}"), *after[1:])
    return (*before, *after)


def _rendered(items: Iterable[Item]) -> list[Message]:
    """Returns a conversation as messages of text: earlier calls as the model's own, their results as a user's.
    Reasoning and items of tools that a provider ran itself are left out."""
    messages: list[Message] = []
    calls: dict[str, ToolCall] = {}
    for item in items:
        if isinstance(item, Message):
            messages.append(item)
        elif isinstance(item, ToolCall):
            calls[item.id] = item
            rejected = _rejection(item)
            text = call_text(item.name, replay_object(item)) if rejected is None else rejected[1]
            messages.append(Message("assistant", (Text(text),)))
        elif isinstance(item, ToolOutput):
            call = calls.get(item.id)
            rejected = _rejection(call) if call is not None else None
            if rejected is not None:
                messages.append(_user(Text(rejection_text(rejected[0]))))
            else:
                name = call.name if call is not None else "a tool"
                messages.append(_user(Text(result_text(name, item.id, item.content)), *item.images, *_sounds(item)))
    return messages


def _sounds(item: ToolOutput) -> Iterable[Part]:
    return (part for part in item.files if isinstance(part, Audio))


def _rejection(call: ToolCall) -> tuple[Rejection, str] | None:
    """Returns why a call was rejected, and the reply that it stands for; None for any other call."""
    if call.raw is None or call.raw.get("type") != REJECTED:
        return None
    why = canonical_json.parse_object(call.arguments_json)
    return Rejection(_CODES[why["rejected"]], str(why["detail"])), str(why["reply"])


def _system(text: str) -> Message:
    return Message("system", (Text(text),))


def _user(*parts: Part) -> Message:
    return Message("user", parts)


class _HeldReply:
    """Shows a reply while it grows, up to where an envelope may begin: text that turns out to be a call, or a part of
    one, is never shown."""

    def __init__(self, emit: Callable[[AiEvent], None]) -> None:
        self._emit = emit
        self._held = ""
        self._is_envelope: bool | None = None

    def take(self, event: AiEvent) -> None:
        if not isinstance(event, TextDelta):
            self._emit(event)
            return
        self._held += event.delta
        if self._is_envelope is None:
            self._is_envelope = True if len(self._held) > _LONGEST_START else begins_envelope(self._held)
        if self._is_envelope is False:
            self._show_words()

    def _show_words(self) -> None:
        """Shows what is held up to an object that may be an envelope; once an object is one, nothing more."""
        at = self._held.find("{")
        while at >= 0:
            first = self._held[at + 1 :].lstrip()
            if any(first.startswith(name) for name in _NAMES):
                self._is_envelope = True
                break
            if any(name.startswith(first) for name in _NAMES):
                break
            at = self._held.find("{", at + 1)
        self._show(len(self._held) if at < 0 else at)

    def show_rest(self) -> None:
        self._show(len(self._held))

    def _show(self, length: int) -> None:
        text, self._held = self._held[:length], self._held[length:]
        if text:
            self._emit(TextDelta(text))


_LONGEST_START: Final = 1_000
"""The most characters that are looked at to find out how a reply begins; a longer undecided start is held back."""

_NAMES: Final = ('"tool"', '"action"', '"args"', '"nonce"')
"""The names with which the fields of an envelope begin."""


def _ignore(_: AiEvent) -> None:
    return None
