"""A model that gives scripted answers, for tests.

Invariant: it is called as a real model is and emits events as one does, text before the completion that holds it. It
keeps every request, so that a test can assert on what the model was told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from demiurge.errors import UsageError
from demiurge.models.port import OnEvent
from demiurge.models.request import GenerateRequest
from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.wire.items import Completion, Message, Text

__all__ = ["Answer", "ScriptedModel"]

Answer: TypeAlias = Completion | Sequence[AiEvent] | Exception


class ScriptedModel:
    """A `LanguageModel` that gives the answers in order, one for each request.

    A Completion is shown as one piece of text and a status for each call. A list of events is shown as it is, and the
    answer is their text. An exception is raised. `requests` are the requests so far. Raises UsageError (`script_over`)
    if no answer is left.
    """

    def __init__(self, answers: Iterable[Answer] = ()) -> None:
        self.requests: list[GenerateRequest] = []
        self._answers: Iterator[Answer] = iter(answers)

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        self.requests.append(request)
        try:
            answer = next(self._answers)
        except StopIteration:
            raise UsageError("The scripted model has no answer left.", code="script_over") from None
        if isinstance(answer, Exception):
            raise answer
        events = _shown(answer) if isinstance(answer, Completion) else answer
        for event in events:
            if on_event is not None:
                on_event(event)
        return answer if isinstance(answer, Completion) else _said(events)


def _shown(completion: Completion) -> list[AiEvent]:
    text: list[AiEvent] = [TextDelta(completion.text)] if completion.text else []
    return [*text, *(Status("tool_use", call.name) for call in completion.tool_calls)]


def _said(events: Sequence[AiEvent]) -> Completion:
    text = "".join(event.delta for event in events if isinstance(event, TextDelta))
    items = (Message("assistant", (Text(text),)),) if text else ()
    return Completion(text, (), "stop", None, items)
