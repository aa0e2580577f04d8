"""One answer of a model that may write its calls as text: the preview, and the final answer.

Invariant: text that turns out to be a call is never shown, and text that was shown is never turned into a call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from demiurge.models.local.fallback import HeldText, call_in_text, guided_call
from demiurge.tools.events import AiEvent, TextDelta
from demiurge.values.clock import Entropy, new_id
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import Completion, Message, ToolCall

__all__ = ["TextCalls"]


class TextCalls:
    """`add_event` takes the events of the answer, `finish` the answer itself. `names` are the tools that were sent."""

    def __init__(self, names: frozenset[str], guided: bool, entropy: Entropy, emit: Callable[[AiEvent], None]) -> None:
        self._names = names
        self._guided = guided
        self._entropy = entropy
        self._emit = emit
        self._held = HeldText()

    def add_event(self, event: AiEvent) -> None:
        if not isinstance(event, TextDelta) or not self._names:
            self._emit(event)
        elif shown := self._held.feed(event.delta):
            self._emit(TextDelta(shown))

    def finish(self, completion: Completion) -> Completion:
        """Returns the answer, with its call if the text is one. Raises ProviderError if a guided answer is no call."""
        if completion.tool_calls or not self._names:
            return self._as_text(completion)
        if self._guided:
            found = guided_call(completion.text, self._names)
            if found is None:
                raise ProviderError(code="truncated" if completion.finish_reason == "length" else "bad_response")
            (name, arguments), whole = found
            return self._as_call(completion, name, arguments, invalid=not whole)
        call = call_in_text(completion.text, self._names) if completion.finish_reason == "stop" else None
        return self._as_text(completion) if call is None else self._as_call(completion, *call, invalid=False)

    def _as_text(self, completion: Completion) -> Completion:
        if rest := self._held.rest():
            self._emit(TextDelta(rest))
        return completion

    def _as_call(self, completion: Completion, name: str, arguments: str, *, invalid: bool) -> Completion:
        call = ToolCall(new_id("call", self._entropy), name, arguments, invalid=invalid)
        others = tuple(item for item in completion.items if not isinstance(item, Message))
        return replace(
            completion,
            text="",
            tool_calls=(call,),
            finish_reason="length" if invalid else "tool_calls",
            items=(*others, call),
        )
