"""The rules of seed 004 for authoring, line by line: Tool, ToolExample, ToolResult, ToolContext, ResourceRegistry."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, List, Tuple, TypeAlias  # noqa: UP035  (some still write these)

import pytest
from pydantic import BaseModel

from demiurge.tools import (
    PromptValidationError,
    ResourceRegistry,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExample,
    ToolPolicy,
    ToolRenderableResult,
    ToolResult,
    ToolRunner,
)
from demiurge.tools.filesystem import Filesystem
from demiurge.values.refs import ref_of


@dataclass(frozen=True)
class LookupParams:
    entity_id: str = field(metadata={"description": "ID to fetch"})


@dataclass(frozen=True)
class LookupResult:
    entity_id: str
    url: str


@dataclass(frozen=True)
class MoreParams(LookupParams):
    pass


@dataclass(frozen=True)
class MoreResult(LookupResult):
    pass


class ModelResult(BaseModel):
    url: str


P: TypeAlias = LookupParams
R: TypeAlias = LookupResult
FOUND = LookupResult("abc-123", "https://...")


def lookup(params: LookupParams, *, context: ToolContext) -> ToolResult[LookupResult]:
    return ToolResult(message=f"Fetched {params.entity_id}", value=LookupResult(params.entity_id, "https://..."))


def lookup_tool(kind: Any = Tool[LookupParams, LookupResult], **changes: Any) -> Any:
    return kind(**{"name": "lookup_entity", "description": "Fetch an entity.", "handler": lookup, **changes})


def refusal_of(kind: Any = Tool[LookupParams, LookupResult], **changes: Any) -> tuple[type | None, str | None]:
    """Which type and which part the error names."""
    with pytest.raises(PromptValidationError) as caught:
        lookup_tool(kind, **changes)
    assert caught.value.section_path is None
    return caught.value.dataclass_type, caught.value.placeholder


def answer(tool: Any, args: Any) -> str:
    result = ToolRunner([tool], policy=ToolPolicy((tool.name,))).exec_sync(tool.name, args)
    assert result.ok, result.safe_message
    return result.content


def handler(
    returns: Any = ToolResult[LookupResult], params: Any = LookupParams, value: Any = None, context: Any = ToolContext
) -> Callable[..., Any]:
    """A handler with these annotations; `inspect.Parameter.empty` stands for none."""

    def function(params, *, context):  # type: ignore[no-untyped-def]
        return ToolResult(message="m", value=value)

    hints = {"params": params, "context": context, "return": returns}
    function.__annotations__ = {name: hint for name, hint in hints.items() if hint is not inspect.Parameter.empty}
    return function


# Tool


def test_the_example_of_the_seed() -> None:
    tool = Tool[LookupParams, LookupResult](
        name="lookup_entity",
        description="Fetch information for an entity ID.",
        handler=lookup,
        examples=(
            ToolExample(
                description="Basic lookup",
                input=LookupParams(entity_id="abc-123"),
                output=LookupResult(entity_id="abc-123", url="https://..."),
            ),
        ),
    )
    assert tool.spec.input_schema["properties"]["entity_id"] == {"type": "string", "description": "ID to fetch"}
    assert answer(tool, {"entity_id": "a"}) == 'Fetched a\n\n{"entity_id":"a","url":"https://..."}'
    assert (tool.accepts_overrides, len(tool.examples)) == (True, 1)


def test_the_fields_of_a_tool_in_their_order() -> None:
    names = [entry.name for entry in dataclasses.fields(Tool) if entry.init]
    assert names[:6] == ["name", "description", "handler", "examples", "idempotency", "accepts_overrides"]
    assert lookup_tool(accepts_overrides=False).accepts_overrides is False


@pytest.mark.parametrize("name", ["a", "lookup_entity", "x-9", "_", "a" * 64])
def test_a_name_is_1_to_64_of_its_characters(name: str) -> None:
    assert lookup_tool(name=name).name == name


@pytest.mark.parametrize("name", ["", "A", "a b", " a", "a\n", "a.b", "é", "a" * 65])
def test_another_name_is_refused_by_its_name(name: str) -> None:
    assert refusal_of(name=name) == (LookupParams, name)


def test_a_description_is_stripped_and_has_1_to_200_characters() -> None:
    assert lookup_tool(description="  \n Fetch. \t").description == "Fetch."
    assert lookup_tool(description="x" * 200 + " ").description == "x" * 200
    for text in ("", "  \n ", "x" * 201, None):
        assert refusal_of(description=text) == (LookupParams, "description")


@pytest.mark.parametrize("text", ["Größe und Maß.", "検索する。", "می‌خواهم", "Send ❤️ or 👩‍💻.", "Two\nlines\tof it."])
def test_a_description_may_be_in_any_script(text: str) -> None:
    """The original takes ASCII only; that it asked for 1 to 200 characters is all that the seed says."""
    assert lookup_tool(description=text).spec.description == text


@pytest.mark.parametrize(
    "hidden", ["\x00", "\x1b", "\x7f", "\r", "\u200b", "\u202e", "\u2066", "\ufeff", "\u00ad", "\u2028", "\U000e0041"]
)
def test_a_description_hides_nothing(hidden: str) -> None:
    assert refusal_of(description=f"Fetch{hidden}it.") == (LookupParams, "description")
    with pytest.raises(PromptValidationError, match=f"U\\+{ord(hidden):04X}"):
        lookup_tool(description=f"Fetch{hidden}it.")
    example = ToolExample(description=f"a{hidden}b", input=LookupParams("a"), output=FOUND)
    assert refusal_of(examples=[example]) == (LookupParams, "examples")


@pytest.mark.parametrize("item", [(), (P,), (P, R, R), P, (P, R, None)])
def test_a_tool_takes_exactly_two_types(item: Any) -> None:
    with pytest.raises(TypeError):
        Tool[item]  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["LookupParams", 3, list[int], P | None, Annotated[P, "x"]])
def test_params_are_a_class(kind: Any) -> None:
    with pytest.raises(TypeError):
        Tool[kind, LookupResult]


@pytest.mark.parametrize("kind", [int, str, dict, object])
def test_params_are_a_dataclass_a_model_or_none(kind: Any) -> None:
    assert refusal_of(Tool[kind, LookupResult]) == (kind, "ParamsT")


def test_a_tool_names_its_types() -> None:
    assert refusal_of(Tool) == (None, "type_arguments")


def test_a_tool_without_parameters() -> None:
    def now(params: None, *, context: ToolContext) -> ToolResult[LookupResult]:
        assert params is None
        return ToolResult(message="now", value=FOUND)

    tool = lookup_tool(Tool[None, LookupResult], handler=now)
    assert tool.spec.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert answer(tool, "{}").startswith("now\n\n")
    assert refusal_of(Tool[None, LookupResult], handler=now, description="") == (type(None), "description")


def test_a_tool_without_a_result() -> None:
    tool = lookup_tool(Tool[P, None], handler=handler(ToolResult[None]))
    assert answer(tool, {"entity_id": "a"}) == "m"


def test_a_tool_without_a_handler_is_not_available() -> None:
    tool = lookup_tool(handler=None)
    result = ToolRunner([tool], policy=ToolPolicy((tool.name,))).exec_sync(tool.name, {"entity_id": "a"})
    assert result.error_code == "unavailable"


ARRAYS: list[Any] = [list[R], tuple[R, ...], Sequence[R], List[R], Tuple[R, ...]]  # noqa: UP006


@pytest.mark.parametrize("declared", ARRAYS)
@pytest.mark.parametrize("returned", ARRAYS)
@pytest.mark.parametrize("container", [list, tuple])
def test_list_tuple_and_sequence_of_one_item_are_one_result(declared: Any, returned: Any, container: Any) -> None:
    example = ToolExample(description="Two.", input=P("a"), output=container([FOUND, FOUND]))
    given = handler(ToolResult[returned], value=container([FOUND]))
    tool = lookup_tool(Tool[P, declared], handler=given, examples=(example,))
    assert answer(tool, {"entity_id": "a"}) == 'm\n\n[{"entity_id":"abc-123","url":"https://..."}]'


@pytest.mark.parametrize("kind", [tuple[R], tuple[R, R], tuple[()], Tuple[int, str], "LookupResult", 3])  # noqa: UP006
def test_a_result_of_fixed_length_or_no_type_is_refused(kind: Any) -> None:
    assert refusal_of(Tool[P, kind], handler=None) == (LookupParams, "ResultT")


@pytest.mark.parametrize("kind", [list["R"], List["R"], Sequence["R"], list[3], tuple["R", ...]])  # type: ignore[valid-type]  # noqa: UP006
def test_an_item_that_is_no_type_is_refused(kind: Any) -> None:
    assert refusal_of(Tool[P, kind], handler=None) == (LookupParams, "ResultT")


def test_a_result_that_can_not_be_written_is_refused() -> None:
    class Opaque:
        pass

    assert refusal_of(Tool[P, Opaque], handler=None) == (LookupParams, "ResultT")


def no_context(params: P) -> ToolResult[R]:
    raise AssertionError


def no_params(*, context: ToolContext) -> ToolResult[R]:
    raise AssertionError


def params_by_name(*, params: P, context: ToolContext) -> ToolResult[R]:
    raise AssertionError


def context_by_position(params: P, context: ToolContext) -> ToolResult[R]:
    raise AssertionError


def context_by_another_name(params: P, *, ctx: ToolContext) -> ToolResult[R]:
    raise AssertionError


def context_with_a_default(params: P, *, context: ToolContext = ToolContext()) -> ToolResult[R]:  # noqa: B008
    raise AssertionError


def one_more(params: P, *, context: ToolContext, more: int = 0) -> ToolResult[R]:
    raise AssertionError


def any_more(params: P, *, context: ToolContext, **more: int) -> ToolResult[R]:
    raise AssertionError


def two_by_position(params: P, more: int = 0, *, context: ToolContext) -> ToolResult[R]:
    raise AssertionError


@pytest.mark.parametrize(
    "function",
    [
        no_context,
        no_params,
        params_by_name,
        context_by_position,
        context_by_another_name,
        context_with_a_default,
        one_more,
        any_more,
        two_by_position,
        handler(params=R),
        handler(params=MoreParams),
        handler(params=P | None),
        handler(params=Annotated[R, "x"]),
        handler(context=int),
        handler(context=ToolContext | None),
        "lookup",
        3,
    ],
)
def test_a_handler_is_params_and_keyword_only_context(function: Any) -> None:
    assert refusal_of(handler=function) == (LookupParams, "handler")


@pytest.mark.parametrize(
    "returns", [R, None, ToolResult[P], ToolResult[MoreResult], ToolResult[list[R]], ToolResult[R] | None]
)
def test_a_handler_returns_the_declared_tool_result(returns: Any) -> None:
    assert refusal_of(handler=handler(returns)) == (LookupParams, "return")


@pytest.mark.parametrize(
    "function",
    [
        handler(params=Annotated[P, "the parameters"]),
        handler(context=Annotated[ToolContext, "x"]),
        handler(Annotated[ToolResult[R], "x"]),
        handler(ToolResult),
        handler("ToolResult[LookupResult]", "LookupParams", context="ToolContext"),
        handler("ToolResult[OnlyForTypeCheckers]", "OnlyForTypeCheckers", context="OnlyForTypeCheckers"),
        handler(inspect.Parameter.empty, inspect.Parameter.empty, context=inspect.Parameter.empty),
    ],
    ids=[
        "wrapped params",
        "wrapped context",
        "wrapped return",
        "bare result",
        "written as text",
        "unresolvable",
        "left out",
    ],
)
def test_annotations_that_are_wrapped_written_as_text_or_left_out(function: Any) -> None:
    """What can't be resolved, or is not there, contradicts nothing."""
    assert lookup_tool(handler=function).handler is function


def test_an_async_handler_is_a_handler() -> None:
    async def later(params: P, *, context: ToolContext) -> ToolResult[R]:
        await asyncio.sleep(0)
        return lookup(params, context=context)

    assert answer(lookup_tool(handler=later), {"entity_id": "a"}).startswith("Fetched a")


def test_equal_tools_are_equal_whatever_subscription_made_them() -> None:
    one, two = lookup_tool(Tool[LookupParams, LookupResult]), lookup_tool(Tool[LookupParams, LookupResult])
    assert one == two
    assert type(one) is type(two) is Tool
    assert one != lookup_tool(Tool[LookupParams, LookupResult], description="Other.")
    assert dataclasses.replace(one) == one
    assert dataclasses.replace(one, name="other").spec.name == "other"


# ToolExample


def example(**changes: Any) -> Any:
    return ToolExample(**{"description": "Basic.", "input": LookupParams("a"), "output": FOUND, **changes})


def test_examples_are_kept_as_a_tuple() -> None:
    assert lookup_tool(examples=[example()]).examples == (example(),)
    assert ToolExample[LookupParams, LookupResult]("d", P("a"), FOUND) == example(description="d")
    assert lookup_tool(examples=[example(description="x" * 200)]).examples
    assert lookup_tool(examples=[example(description="Übung")]).examples


@pytest.mark.parametrize(
    "wrong",
    [
        "text",
        example(description=""),
        example(description="x" * 201),
        example(description=None),
        example(input=MoreParams("a")),
        example(input={"entity_id": "a"}),
        example(input=None),
        example(input=LookupParams(3)),  # type: ignore[arg-type]
        example(output=MoreResult("a", "b")),
        example(output={"entity_id": "a", "url": "b"}),
        example(output=None),
        example(output=[FOUND]),
        example(output=LookupResult(3, "b")),  # type: ignore[arg-type]
    ],
)
def test_an_example_is_exactly_of_the_tools_types(wrong: Any) -> None:
    assert refusal_of(examples=[wrong]) == (LookupParams, "examples")


BINARY = b"\xff\x00"


@pytest.mark.parametrize("output", [FOUND, "text", {"a": FOUND}, None, [MoreResult("a", "b")], [None]])
def test_an_example_of_an_array_is_a_sequence_of_exactly_the_item(output: Any) -> None:
    kind = Tool[LookupParams, list[LookupResult]]
    assert refusal_of(kind, handler=None, examples=[example(output=output)]) == (LookupParams, "examples")
    assert lookup_tool(kind, handler=None, examples=[example(output=[])]).examples


def test_an_example_without_parameters_or_result_has_none() -> None:
    nothing = Tool[None, None]
    assert lookup_tool(nothing, handler=None, examples=[example(input=None, output=None)]).examples
    for wrong in (example(input=None), example(output=None), example(input={}, output=None)):
        assert refusal_of(nothing, handler=None, examples=[wrong]) == (type(None), "examples")


def test_an_example_of_a_model_or_a_plain_value() -> None:
    class Sub(ModelResult):
        pass

    model = Tool[LookupParams, ModelResult]
    assert lookup_tool(model, handler=None, examples=[example(output=ModelResult(url="u"))]).examples
    assert refusal_of(model, handler=None, examples=[example(output=Sub(url="u"))])[1] == "examples"
    assert lookup_tool(Tool[P, int], handler=None, examples=[example(output=3)]).examples
    assert refusal_of(Tool[P, int], handler=None, examples=[example(output="3")])[1] == "examples"


# ToolResult


def test_a_result_has_the_seeds_fields() -> None:
    result = ToolResult[LookupResult](message="m", value=FOUND)
    assert (result.message, result.value, result.success, result.exclude_value_from_context) == (
        "m",
        FOUND,
        True,
        False,
    )
    assert [entry.name for entry in dataclasses.fields(ToolResult)] == [
        "message",
        "value",
        "success",
        "exclude_value_from_context",
        *("parts", "verbatim"),  # beyond the seed's fields, at the end and with a default
    ]


@dataclass(frozen=True)
class Speaks:
    words: Any

    def render(self) -> Any:
        if self.words == "raise":
            raise RuntimeError("broken")
        return self.words


@dataclass(frozen=True)
class Holds:
    inner: Any
    other: int | None = None


class Own:
    def __str__(self) -> str:
        return "its own words"


LOOP: list[Any] = []
LOOP.append(LOOP)

RENDERED: list[tuple[Any, str]] = [
    (None, ""),
    ("plain text", "plain text"),
    ("", ""),
    (Speaks("spoken"), "spoken"),
    (Speaks(7), "7"),
    (Speaks("raise"), '{"words":"raise"}'),
    (Speaks("\ud800"), "Speaks(words='\\ud800')"),
    (FOUND, '{"entity_id":"abc-123","url":"https://..."}'),
    (Holds("é"), '{"inner":"é","other":null}'),
    (Holds(Speaks("spoken")), '{"inner":{"words":"spoken"},"other":null}'),
    ({"k": FOUND}, '{"k":{"entity_id":"abc-123","url":"https://..."}}'),
    ({"k": Speaks("spoken")}, '{"k":{"words":"spoken"}}'),
    ({1: b"bytes"}, '{"1":"bytes"}'),
    ({"k": Own()}, '{"k":"its own words"}'),
    ([], "[]"),
    ((), "[]"),
    ([1, "a", None], '[1,"a",null]'),
    (["a", "b"], '["a","b"]'),
    ([FOUND], '[{"entity_id":"abc-123","url":"https://..."}]'),
    ([Speaks("one"), Speaks("two")], "one\n\ntwo"),
    ((Speaks("one"), "two", 3), "one\n\ntwo\n\n3"),
    ([Speaks("1"), Speaks('{"a": 2}'), 3], '[1,{"a": 2},3]'),
    ([Speaks("raise"), Speaks("raise")], '[{"words":"raise"},{"words":"raise"}]'),
    (b"bytes", "bytes"),
    (BINARY, f"2 bytes that are not text, {ref_of(BINARY)}"),
    (bytearray(b"x"), "x"),
    ({"k": b"\xff"}, "{'k': b'\\xff'}"),
    (LOOP, "[[...]]"),
    (True, "true"),
    (2.5, "2.5"),
    (Own(), '"its own words"'),
]


@pytest.mark.parametrize(("value", "text"), RENDERED)
def test_a_tool_result_renders_each_kind_of_value(value: Any, text: str) -> None:
    assert ToolResult(message="m", value=value).render() == text


def test_the_rendering_protocol() -> None:
    assert isinstance(Speaks("x"), ToolRenderableResult)
    assert not isinstance(FOUND, ToolRenderableResult)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (list[Speaks], [Speaks("one"), Speaks("two")], "m\n\none\n\ntwo"),
        (tuple[Speaks, ...], (Speaks("1"), Speaks("2")), "m\n\n[1,2]"),
        (dict[str, Speaks], {"k": Speaks("one")}, 'm\n\n{"k":{"words":"one"}}'),
        (bytes, b"bytes", "m\n\nbytes"),
        (str, "", "m"),
        (Mapping[str, int], {"k": 1}, 'm\n\n{"k":1}'),
    ],
)
def test_the_model_reads_the_same(kind: Any, value: Any, text: str) -> None:
    tool = lookup_tool(Tool[P, kind], handler=handler(ToolResult[kind], value=value))
    assert answer(tool, {"entity_id": "a"}) == text


@pytest.mark.parametrize(
    ("message", "value", "excluded", "text"),
    [
        ("m", FOUND, True, "m"),
        ("", FOUND, True, ""),
        ("", FOUND, False, '{"entity_id":"abc-123","url":"https://..."}'),
        ("m", FOUND, False, 'm\n\n{"entity_id":"abc-123","url":"https://..."}'),
    ],
)
def test_message_a_blank_line_and_the_value_unless_it_is_excluded(
    message: str, value: Any, excluded: bool, text: str
) -> None:
    def say(params: P, *, context: ToolContext) -> ToolResult[R]:
        return ToolResult(message=message, value=value, exclude_value_from_context=excluded)

    assert answer(lookup_tool(handler=say), {"entity_id": "a"}) == text


# ToolContext, ResourceRegistry


class Files:
    """Stands for a bound Filesystem."""


def test_a_context_is_immutable_and_has_the_seeds_fields() -> None:
    names = [entry.name for entry in dataclasses.fields(ToolContext)]
    assert names[:7] == ["prompt", "rendered_prompt", "adapter", "session", "deadline", "budget_tracker", "resources"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ToolContext().prompt = None  # type: ignore[misc]


def test_filesystem_is_sugar_for_the_bound_files() -> None:
    files: Any = Files()
    context = ToolContext(resources=ResourceRegistry.build({Filesystem: files}))
    assert context.filesystem is files
    assert context.resources.get(Filesystem) is files
    assert ToolContext().filesystem is None


def test_a_registry_is_looked_up_by_type() -> None:
    registry = ResourceRegistry.build({Files: "files", int: 0})
    found: list[Any] = [registry.get(Files), registry.get(int), registry.get(str)]
    assert found == ["files", 0, None]
    assert registry.get(str, "default") == "default"
    assert registry.get(int, 7) == 0
    assert Files in registry
    assert str not in registry


def test_a_registry_leaves_out_none_and_is_a_copy() -> None:
    given: dict[Any, Any] = {Files: None, int: 3}
    registry = ResourceRegistry.build(given)
    given[int] = 4
    assert Files not in registry
    assert registry.get(Files, "default") == "default"
    assert registry.get(int) == 3


def test_a_handler_gets_the_registry_of_the_runner() -> None:
    def look(params: P, *, context: ToolContext) -> ToolResult[R]:
        found = context.resources.get(Files)
        assert context.session.event_bus is not None
        return ToolResult(message="No filesystem" if found is None else "found", value=FOUND)

    tool = lookup_tool(handler=look, effect=ToolEffect.READ_ONLY)
    runner = ToolRunner([tool], policy=ToolPolicy((tool.name,)), resources={Files: Files()})
    assert runner.exec_sync(tool.name, {"entity_id": "a"}).content.startswith("found")
    assert answer(tool, {"entity_id": "a"}).startswith("No filesystem")
