"""The three wire formats under the names that the golden files use, and how tests read a whole stream of one."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from demiurge.tools.events import AiEvent
from demiurge.wire import Completion, ProviderError, anthropic, openai_chat, openai_responses

FORMATS: dict[str, ModuleType] = {"chat": openai_chat, "messages": anthropic, "responses": openai_responses}

Rows = Sequence[tuple[Any, ...]]


def table(names: str, *, chat: Rows = (), messages: Rows = (), responses: Rows = ()) -> pytest.MarkDecorator:
    """Runs a test once for each row, with the row's format as `wire` and its cells as the arguments `names`."""
    cases = {"chat": chat, "messages": messages, "responses": responses}
    rows = [
        pytest.param(FORMATS[name], *row, id=f"{name}-{number}")
        for name, rows in cases.items()
        for number, row in enumerate(rows)
    ]
    return pytest.mark.parametrize(f"wire, {names}", rows)


def read_stream(wire: ModuleType, body: bytes, *cuts: int) -> tuple[list[AiEvent], Completion | ProviderError]:
    """Feeds a body to a decoder, cut at the given places. Returns its events, and its answer or its error."""
    decoder = wire.Decoder()
    ends = [*sorted(cuts), len(body)]
    events = [event for a, b in zip([0, *ends], ends, strict=False) for event in decoder.feed(body[a:b])]
    try:
        answer: Completion = decoder.close()
    except ProviderError as error:
        with pytest.raises(ProviderError):
            decoder.close()
        return events, error
    assert decoder.close() == answer
    return events, answer


def read_answer(wire: ModuleType, body: bytes, *cuts: int) -> tuple[list[AiEvent], Completion]:
    """Feeds the body of a stream that ends well to a decoder. Returns its events and its answer."""
    events, answer = read_stream(wire, body, *cuts)
    assert isinstance(answer, Completion), answer
    return events, answer


def stream_error(wire: ModuleType, body: bytes) -> ProviderError:
    """Feeds a broken stream to a decoder, whole and byte by byte. Returns its error, which has to be the same."""
    _, error = read_stream(wire, body)
    _, again = read_stream(wire, body, *range(len(body)))
    assert isinstance(error, ProviderError), error
    assert isinstance(again, ProviderError), again
    assert error.code == again.code
    return error
