"""What a client sent after a recorded answer, said again by our encoders from the decoded answer: the golden ones, and
all checks of `bench.wire` that need no SDK on the corpora that DEMIURGE_CORPORA may name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from bench.wire.derived import derived_failures
from bench.wire.interactions import Interaction, recorded
from bench.wire.resent import Answers, answers, has_results, resent_difference
from bench.wire.splits import split_difference

from demiurge.wire import Item, ToolCall, ToolOutput

_GOLDEN = Path(__file__).with_name("golden") / "resent"
_APIS = ["chat", "messages", "responses"]


def _golden(api: str) -> tuple[Interaction, Interaction]:
    """The interaction that made the calls, and the next one, of which only the request is kept."""
    entry = json.loads((_GOLDEN / f"{api}.json").read_text(encoding="utf-8"))
    first = Interaction(f"{api} 1", api, api, entry["stream"], 200, "", entry["answer"].encode(), {})
    return first, Interaction(f"{api} 2", api, api, False, 200, "", b"", entry["request"])


_NAMED = recorded() if "DEMIURGE_CORPORA" in os.environ else []


@cache
def _known() -> Answers:
    return answers(_NAMED)


@pytest.mark.parametrize("api", _APIS)
def test_a_request_is_said_again_from_the_decoded_answer(api: str) -> None:
    first, second = _golden(api)
    assert has_results(second)
    assert resent_difference(second, answers([first])) == (1, None)


_SPOILERS: dict[str, Callable[[Sequence[Item]], Sequence[Item]]] = {
    "other order": lambda items: items[::-1],
    "a result lost": lambda items: items[:-1],
    "a result twice": lambda items: [*items, items[-1]],
    "other arguments": lambda items: [
        replace(item, arguments_json='{"spoiled": 1}') if isinstance(item, ToolCall) else item for item in items
    ],
    "another id": lambda items: [
        replace(item, id="call_other") if isinstance(item, ToolOutput) else item for item in items
    ],
}


@pytest.mark.parametrize("api", _APIS)
@pytest.mark.parametrize("spoiler", _SPOILERS)
def test_an_encoder_that_says_something_else_is_seen(api: str, spoiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _golden(api)
    encode = second.wire.encode_messages
    monkeypatch.setattr(second.wire, "encode_messages", lambda items: encode(_SPOILERS[spoiler](items)))
    _, reason = resent_difference(second, answers([first]))
    assert reason is not None
    assert reason.startswith("unexplained")


@pytest.mark.parametrize(
    "entry", [_golden(api)[0] for api in _APIS] + _NAMED, ids=lambda entry: f"{entry.provider} {entry.name}"
)
def test_the_checks_of_the_table(entry: Interaction) -> None:
    if entry.stream:
        assert split_difference(entry) is None
    assert [failure for failure in derived_failures(entry) if failure[1] is not None] == []
    if has_results(entry):
        _, reason = resent_difference(entry, _known())
        assert reason is None or not reason.startswith("unexplained")
