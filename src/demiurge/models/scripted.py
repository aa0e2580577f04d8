"""A model that says what a script says, for tests of what is built around one.

Invariant: it is asked as a real one is and shows its answers as one does, text before the completion that holds it; it
keeps every request, so that a test can say what the model was told.
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
    """Gives the answers in their order, one for each request; a `LanguageModel`.

    A Completion is shown as one piece of text and a status for each call. Events are shown as they are, and the answer
    is their text. An exception is raised. `requests` are those that came. Raises UsageError (`script_over`) when
    there is no answer left.
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
