"""A model that gives scripted answers, for tests.

Invariant: it is called as a real model is and emits events as one does, text before the completion that holds it. It
keeps every request, so that a test can assert on what the model was told.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, get_args

from demiurge.errors import UsageError
from demiurge.models.port import OnEvent
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.wire.items import Completion, Item, Message, Text, ToolCall, ToolOutput, Usage

__all__ = ["Answer", "ScriptedCall", "ScriptedModel", "call"]

SHOWN = 10
"""How many of the last requests an error lists."""
WIDTH = 120
"""How many characters of a text an error shows."""


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call in a script; `call` makes one. `id` None: the model numbers it (`call_1`, `call_2`, ...)."""

    name: str
    arguments_json: str
    id: str | None = None


Said: TypeAlias = str | ScriptedCall | Completion | Exception | Sequence[Any]
Answer: TypeAlias = Said | Callable[[GenerateRequest], Said | Awaitable[Said]]


def call(
    tool_id: str, arguments: Mapping[str, Any] | str | None = None, /, *, call_id: str | None = None, **named: Any
) -> ScriptedCall:
    """Returns a tool call for a script: `call("add", a=1, b=2)`, or `call("add", {"a": 1, "b": 2})`.

    `arguments` as text is what the model writes, which need not be JSON. `call_id` is the id of the call. Raises
    UsageError for text together with named arguments."""
    if isinstance(arguments, str):
        if named:
            raise UsageError("Give the arguments of a scripted call as text or by name, not both.")
        return ScriptedCall(tool_id, arguments, call_id)
    return ScriptedCall(tool_id, json.dumps({**(arguments or {}), **named}, ensure_ascii=False), call_id)


class ScriptedModel:
    """A `LanguageModel` that gives the answers in order, one for each request.

    An answer is a text; a `call(...)`; a list of texts and calls, which are one answer; a Completion; a list of events
    (shown as they are; the answer is their text); an exception, which is raised; or a function of the request that
    returns one of these, and may be async. A function in place of the list answers every request.

    With `by_history` the answer is chosen by how often the model has answered since the last message of a user, not by
    how often this object was asked: a process that goes on with a chat after a crash then gives the right answer.

    `requests` are the requests so far. Raises UsageError (`script_over`), which lists what was asked, if no answer is
    left."""

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[GenerateRequest], Said | Awaitable[Said]] = (),
        *,
        by_history: bool = False,
    ) -> None:
        self.requests: list[GenerateRequest] = []
        self.over: UsageError | None = None
        """The error of the first request for which no answer was left; None so far."""
        self._always = answers if callable(answers) else None
        if isinstance(answers, str):
            raise UsageError("The answers of a ScriptedModel are a list: write [text].")
        given = () if callable(answers) else answers
        self._by_history = list(given) if by_history else None
        self._answers: Iterator[Answer] = iter(() if by_history else given)
        self._calls = 0

    def __repr__(self) -> str:
        return f"<ScriptedModel, asked {_times(len(self.requests))}>"

    def say(self, *answers: Answer) -> None:
        """Adds answers at the end of the script. Raises UsageError for a model whose answers are a function, or are
        chosen by history."""
        if self._always is not None or self._by_history is not None:
            raise UsageError("Only a list of answers that are given in order can be added to.")
        self._answers = chain(self._answers, answers)

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        self.requests.append(request)
        answer = self._answer(request)
        if callable(answer):
            said = answer(request)
            answer = await said if inspect.isawaitable(said) else said
        if isinstance(answer, Exception):
            raise answer
        completion, events = self._said(answer)
        for event in events:
            if on_event is not None:
                on_event(event)
        return completion

    def _said(self, answer: Said) -> tuple[Completion, Sequence[AiEvent]]:
        """Returns an answer, and the events that announce it."""
        if isinstance(answer, Completion):
            return answer, _shown(answer)
        parts: Sequence[Any] = (answer,) if isinstance(answer, str | ScriptedCall | Exception) else answer
        if parts and all(isinstance(part, get_args(AiEvent)) for part in parts):
            return _streamed(parts), parts
        if not all(isinstance(part, str | ScriptedCall) for part in parts):
            raise UsageError(
                f"{answer!r} is no answer of a ScriptedModel: write a text, a call(...) or a list of them."
            )
        completion = self._completed(parts)
        return completion, _shown(completion)

    def _answer(self, request: GenerateRequest) -> Answer:
        if self._always is not None:
            return self._always
        if self._by_history is not None:
            given = _answered(request.items)
            if given < len(self._by_history):
                self._calls = 100 * given
                return self._by_history[given]
        else:
            for answer in self._answers:
                return answer
        error = UsageError(f"The scripted model has no answer left. {self.asked()}", code="script_over")
        self.over = self.over or error
        raise error

    def _completed(self, parts: Sequence[str | ScriptedCall]) -> Completion:
        items: list[Item] = []
        for part in parts:
            if isinstance(part, str):
                items.append(Message("assistant", (Text(part),)))
            else:
                self._calls += 1
                items.append(ToolCall(part.id or f"call_{self._calls}", part.name, part.arguments_json))
        calls = tuple(item for item in items if isinstance(item, ToolCall))
        text = "".join(part for part in parts if isinstance(part, str))
        return Completion(text, calls, "tool_calls" if calls else "stop", Usage(0, 0), tuple(items))

    # -- what the model was told --------------------------------------------------------------------------------------

    @property
    def last(self) -> GenerateRequest:
        """The last request. Raises AssertionError if there was none."""
        if not self.requests:
            raise AssertionError("The scripted model was not asked.")
        return self.requests[-1]

    def asked(self) -> str:
        """Returns what was asked so far as one sentence: how often, and the last item of each of the last requests."""
        if not self.requests:
            return "It was not asked."
        first = max(0, len(self.requests) - SHOWN)
        listed = (f"{at}. {_ask(request)}" for at, request in enumerate(self.requests[first:], first + 1))
        return f"It was asked {_times(len(self.requests))}: {'; '.join(listed)}"

    def assert_told(self, text: str) -> None:
        """Asserts that a request so far held `text`: in an instruction, a message, or a tool's result."""
        told = [_text(item) for request in self.requests for item in request.items]
        __tracebackhide__ = True
        if not any(text in each for each in told):
            raise AssertionError(f"The model was not told {text!r}. {self.asked()}")

    def assert_not_told(self, text: str) -> None:
        """Asserts that no request so far held `text`, a secret for example."""
        found = [
            at for at, request in enumerate(self.requests, 1) if any(text in _text(item) for item in request.items)
        ]
        __tracebackhide__ = True
        if found:
            raise AssertionError(f"The model was told {text!r}, in request {found[0]}. {self.asked()}")

    def assert_offered(self, *tool_ids: str) -> None:
        """Asserts that the last request offered these tools."""
        offered = [spec.name for spec in self.last.specs]
        missing = [name for name in tool_ids if name not in offered]
        __tracebackhide__ = True
        if missing:
            raise AssertionError(f"The model was not offered {', '.join(missing)}; it was offered {offered}.")

    def assert_finished(self) -> None:
        """Asserts that every answer was given, and that no request found the script over."""
        __tracebackhide__ = True
        if self.over is not None:
            raise AssertionError(self.over.message)
        left = list(self._answers)
        self._answers = iter(left)
        if left:
            raise AssertionError(
                f"The scripted model has {len(left)} more answers, the next one {left[0]!r}. {self.asked()}"
            )


def _answered(items: Sequence[Item]) -> int:
    """Returns how many answers the model has given since the last message of a user."""
    said = max((at for at, item in enumerate(items) if isinstance(item, Message) and item.role == "user"), default=-1)
    kinds = ["told" if isinstance(item, ToolOutput) else "answer" for item in items[said + 1 :]]
    return sum(now == "answer" and before == "told" for before, now in zip(["told", *kinds], kinds, strict=False))


def _ask(request: GenerateRequest) -> str:
    if not request.items:
        return "nothing"
    item = request.items[-1]
    text = _text(item)
    shown = text if len(text) <= WIDTH else f"{text[:WIDTH]}..."
    who = item.role if isinstance(item, Message) else "tool result" if isinstance(item, ToolOutput) else "item"
    return f"{who}: {shown!r}"


def _text(item: Item) -> str:
    match item:
        case Message():
            return item.text
        case ToolOutput():
            return item.content
        case ToolCall():
            return f"{item.name} {item.arguments_json}"
        case _:
            return ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _shown(completion: Completion) -> list[AiEvent]:
    text: list[AiEvent] = [TextDelta(completion.text)] if completion.text else []
    return [*text, *(Status("tool_use", call.name) for call in completion.tool_calls)]


def _streamed(events: Sequence[AiEvent]) -> Completion:
    text = "".join(event.delta for event in events if isinstance(event, TextDelta))
    items = (Message("assistant", (Text(text),)),) if text else ()
    return Completion(text, (), "stop", None, items)
