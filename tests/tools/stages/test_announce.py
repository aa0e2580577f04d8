"""The start of a call shows what the tool's redaction makes public of its arguments, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from demiurge import (
    InMemoryApprovals,
    PromptValidationError,
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolRunner,
)
from demiurge.errors import InvalidValue
from demiurge.tools import SpanSink, ToolCallStart, ToolErrorCode, ToolSpan, ToolSpec
from demiurge.tools.redaction import MAX_PUBLIC_ARGUMENTS


@dataclass(frozen=True)
class Card:
    brand: str
    number: str


@dataclass(frozen=True)
class Payment:
    to: str
    note: str = ""
    amount: int = 0
    cards: list[Card] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)


def pay(params: Payment, *, context: ToolContext) -> ToolResult[None]:
    return ToolResult("paid")


ARGUMENTS = {
    "to": "ada",
    "note": "canary",
    "cards": [{"brand": "Visa", "number": "canary"}],
    "extra": {"a": "1", "b": "2"},
}


class Till:
    def __init__(self, redaction: Redaction, **options: Any) -> None:
        self.events: list[Any] = []
        self.spans: list[ToolSpan] = []
        tool = Tool[Payment, None](
            name="pay", description="Pays.", handler=pay, effect=ToolEffect.READ_ONLY, redaction=redaction
        )
        options = {"policy": ToolPolicy(("pay",)), **options}
        self.runner = ToolRunner([tool], emit=self.events.append, resources={SpanSink: self}, **options)

    def put(self, span: ToolSpan, /) -> None:
        self.spans.append(span)

    def start(self, raw: Any, name: str = "pay") -> dict[str, Any]:
        self.result = self.runner.exec_sync(name, raw, tool_call_id="c")
        [start] = [event for event in self.events if isinstance(event, ToolCallStart)]
        assert self.events[0] is start
        assert self.result.record.public()["arguments"] == start.args
        said = self.spans[0].attributes.get("arguments")
        assert (json.loads(str(said)) if said is not None else {}) == start.args
        return dict(start.args)


@pytest.mark.parametrize(
    ("redaction", "shown"),
    [
        (Redaction.message_only(), {}),
        (Redaction.drop_all(arguments=("to",)), {"to": "ada"}),
        (Redaction.message_only(arguments=("to", "cards.brand")), {"to": "ada", "cards": [{"brand": "Visa"}]}),
        (Redaction.message_only(arguments=("extra.a", "amount")), {"extra": {"a": "1"}}),
        (Redaction.message_only(arguments=("extra.*",)), {"extra": {"a": "1", "b": "2"}}),
    ],
)
def test_only_what_is_named_is_public(redaction: Redaction, shown: dict[str, Any]) -> None:
    till = Till(redaction)
    assert till.start(json.dumps(ARGUMENTS)) == shown
    assert till.result.record.args == ARGUMENTS
    assert "canary" not in repr(till.result)


@pytest.mark.parametrize("raw", ['{"to": "canary"', '["canary"]', '{"to": "canary", "to": "x"}', b"\xff", None, "NaN"])
def test_a_value_that_is_no_object_shows_nothing(raw: Any) -> None:
    till = Till(Redaction.drop_all(arguments=("to",)))
    assert till.start(raw) == {}
    assert till.result.error_code == "invalid_json"


def test_a_call_that_breaks_the_schema_shows_what_is_named_all_the_same() -> None:
    till = Till(Redaction.drop_all(arguments=("to",)))
    assert till.start('{"to": "ada", "note": 7}') == {"to": "ada"}
    assert till.result.error_code == "validation"


@pytest.mark.parametrize("name", ["pay", "nope"])
def test_a_denied_call_shows_nothing_whether_there_is_such_a_tool_or_not(name: str) -> None:
    till = Till(Redaction.drop_all(arguments=("to",)), policy=ToolPolicy())
    assert till.start('{"to": "canary"}', name) == {}
    assert till.result.error_code == "policy_denied"


def test_a_call_that_waits_for_a_person_shows_what_is_named() -> None:
    policy = ToolPolicy(("pay",), require_approval_for_tools=("pay",))
    till = Till(Redaction.drop_all(arguments=("to",)), policy=policy, approvals=InMemoryApprovals())
    assert till.start('{"to": "ada", "note": "canary"}') == {"to": "ada"}
    assert till.result.error_code == "approval_required"


async def test_a_call_that_is_not_run_has_its_start_and_shows_nothing() -> None:
    till = Till(Redaction.drop_all(arguments=("to",)))
    refused = {0: ToolErrorCode.REPEATED_CALL}
    await till.runner.exec_many([("c", "pay", '{"to": "canary"}')], refused=refused)
    assert [event.type for event in till.events] == ["tool_call_start", "tool_call_result"]
    assert till.events[0].args == {}


def test_too_much_of_it_gives_way_to_its_size() -> None:
    till = Till(Redaction.drop_all(arguments=("to",)))
    [(key, size)] = till.start(json.dumps({"to": "ä" * MAX_PUBLIC_ARGUMENTS})).items()
    assert (key, size) == ("omitted_arguments_bytes", 2 * MAX_PUBLIC_ARGUMENTS + len('{"to":""}'))
    fits = MAX_PUBLIC_ARGUMENTS - len('{"to":""}')
    assert Till(Redaction.drop_all(arguments=("to",))).start(json.dumps({"to": "a" * fits})) == {"to": "a" * fits}
    over = Till(Redaction.drop_all(arguments=("to",))).start(json.dumps({"to": "a" * (fits + 1)}))
    assert over == {"omitted_arguments_bytes": MAX_PUBLIC_ARGUMENTS + 1}


def test_an_integer_that_few_readers_can_read_is_text() -> None:
    till = Till(Redaction.drop_all(arguments=("amount",)))
    assert till.start('{"to": "ada", "amount": 9007199254740993}') == {"amount": "9007199254740993"}


def test_a_span_has_the_arguments_as_compact_json() -> None:
    till = Till(Redaction.drop_all(arguments=("to", "cards.brand")))
    till.start('{"to": "Zoë", "cards": [{"brand": "Visa", "number": "canary"}]}')
    assert till.spans[0].attributes["arguments"] == '{"to":"Zoë","cards":[{"brand":"Visa"}]}'


def test_a_listener_changes_no_record() -> None:
    till = Till(Redaction.drop_all(arguments=("cards.brand",)))
    till.start(json.dumps(ARGUMENTS))
    till.events[0].args["cards"].clear()
    assert till.result.record.arguments == {"cards": [{"brand": "Visa"}]}


def test_a_redaction_that_breaks_shows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Redaction):
        def public_arguments(self, arguments: Any) -> dict[str, Any]:
            raise RuntimeError(f"{arguments}")

    till = Till(Broken("drop_all", (), ("to",)))
    assert till.start('{"to": "canary"}') == {}
    assert till.result.ok
    [line] = caplog.messages
    assert line.startswith("tool call: redaction of arguments raised RuntimeError at ")
    assert "canary" not in line


@pytest.mark.parametrize("path", ["two", "to.x", "cards.colour", "cards.brand.x"])
def test_an_argument_that_the_tool_does_not_take_is_refused(path: str) -> None:
    with pytest.raises(PromptValidationError, match=f"argument '{path}'"):
        Till(Redaction.drop_all(arguments=(path,)))


@pytest.mark.parametrize("arguments", [("",), ("a..b",), ("a b",), (7,), "to"])
def test_a_path_that_is_none_is_refused(arguments: Any) -> None:
    with pytest.raises(InvalidValue, match="arguments"):
        Redaction.drop_all(arguments=arguments)


def test_a_redaction_without_arguments_keeps_its_digest() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    plain = Redaction.allow("total")
    assert plain.to_json() == {"mode": "top_level", "fields": ["total"]}
    named = Redaction.allow("total", arguments=("b", "a"))
    assert named.to_json() == {"mode": "top_level", "fields": ["total"], "arguments": ["a", "b"]}
    assert Redaction.from_json(plain.to_json()) == plain
    assert Redaction.from_json(named.to_json()) == Redaction.allow("total", arguments=("a", "b"))
    specs = [ToolSpec("t", "T.", schema, ToolEffect.READ_ONLY, redaction) for redaction in (plain, named)]
    assert specs[0].spec_hash == "sha256:4a2f2b555b418c5ea6709695f85337d5b073c3df1cf7832ae3a2a31092308738"
    assert specs[0].spec_hash != specs[1].spec_hash
    for broken in ({"mode": "drop_all", "arguments": "to"}, {"mode": "drop_all", "argument": []}):
        with pytest.raises(InvalidValue):
            Redaction.from_json(broken)
