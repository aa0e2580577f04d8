"""A tool written wrongly is refused where it is made."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, create_model
from typing_extensions import TypedDict

from demiurge.tools import (
    PromptValidationError,
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExample,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    tool,
)


@dataclass(frozen=True)
class P:
    x: int


@dataclass(frozen=True)
class R:
    y: int


class Model(BaseModel):
    x: int = Field(description="a number", ge=0)


def handle(params: P, *, context: ToolContext) -> ToolResult[R]:
    return ToolResult(message="ok", value=R(params.x))


def make(**changes: Any) -> Tool[Any, Any]:
    return Tool[P, R](**{"name": "t", "description": "Does it.", "handler": handle, **changes})


def run(made: Tool[Any, Any], args: Any) -> Any:
    result = ToolRunner([made], policy=ToolPolicy((made.name,))).exec_sync(made.name, args)
    assert result.ok, result.safe_message
    return result.content


@pytest.mark.parametrize(
    "name", ["", "Up", "a b", "a" * 65, "a.b", "é", "a\n", " a", "core__x", "mcp__x", "workspace__y"]
)
def test_a_name_out_of_form_or_reserved_is_refused(name: str) -> None:
    with pytest.raises(PromptValidationError):
        make(name=name)


@pytest.mark.parametrize("name", ["a", "a" * 64, "math__add", "core", "coreference", "x-1", "core_x"])
def test_a_name_in_form_is_taken(name: str) -> None:
    assert make(name=name).spec.name == name


@pytest.mark.parametrize("description", ["", "   ", "x" * 201])
def test_a_description_has_1_to_200_characters(description: str) -> None:
    with pytest.raises(PromptValidationError) as caught:
        make(description=description)
    assert caught.value.placeholder == "description"


def no_context(params: P) -> ToolResult[R]:
    raise AssertionError


def positional_context(params: P, context: ToolContext) -> ToolResult[R]:
    raise AssertionError


def other_keyword(params: P, *, ctx: ToolContext) -> ToolResult[R]:
    raise AssertionError


def default_context(params: P, *, context: ToolContext | None = None) -> ToolResult[R]:
    raise AssertionError


def wrong_params(params: R, *, context: ToolContext) -> ToolResult[R]:
    raise AssertionError


def wrong_context(params: P, *, context: int) -> ToolResult[R]:
    raise AssertionError


@pytest.mark.parametrize(
    "handler",
    [
        no_context,
        positional_context,
        other_keyword,
        default_context,
        wrong_params,
        wrong_context,
        3,
    ],
)
def test_a_handler_of_another_signature_is_refused(handler: Any) -> None:
    with pytest.raises(PromptValidationError) as caught:
        make(handler=handler)
    assert caught.value.placeholder == "handler"


def test_two_equal_tools_are_equal_and_of_one_class() -> None:
    assert make() == make()
    assert type(make()) is Tool


def test_lists_tuples_and_sequences_of_a_type_are_the_same_result() -> None:
    def listed(params: P, *, context: ToolContext) -> ToolResult[list[R]]:
        return ToolResult(message="", value=[R(params.x)])

    made = Tool[P, Sequence[R]](name="t", description="d", handler=listed, redaction=Redaction.allow("y"))
    result = ToolRunner([made], policy=ToolPolicy(("t",))).exec_sync("t", {"x": 1})
    assert result.value == [{"y": 1}]


def test_undeclared_effect_is_the_strictest_and_redaction_is_message_only() -> None:
    assert make().effect is ToolEffect.EXTERNAL_SIDE_EFFECT
    assert make().redaction == Redaction.message_only()


def test_redaction_must_name_fields_that_exist() -> None:
    with pytest.raises(PromptValidationError):
        make(redaction=Redaction.allow("z"))
    with pytest.raises(PromptValidationError):
        make(redaction=None)


def test_examples_are_checked() -> None:
    good = ToolExample[P, R](description="one", input=P(1), output=R(1))
    assert make(examples=[good]).examples == (good,)
    wrong: Any = "no"
    for bad in (
        ToolExample(description="", input=P(1), output=R(1)),
        ToolExample(description="x" * 201, input=P(1), output=R(1)),
        ToolExample(description="d", input=R(1), output=R(1)),
        ToolExample(description="d", input=P(wrong), output=R(1)),
        ToolExample(description="d", input=P(1), output=P(1)),
        wrong,
    ):
        with pytest.raises(PromptValidationError):
            make(examples=(bad,))


@pytest.mark.parametrize("timeout", [0, -1, True, "1", timedelta(0)])
def test_a_timeout_is_positive(timeout: Any) -> None:
    with pytest.raises(PromptValidationError):
        make(timeout=timeout)


def test_a_tool_without_parameters() -> None:
    def now(params: None, *, context: ToolContext) -> ToolResult[str]:
        return ToolResult(message="m", value="v")

    assert run(Tool[None, str](name="t", description="d", handler=now), "{}") == "m\n\nv"


def test_a_callable_object_a_partial_and_a_method_are_handlers() -> None:
    class Owner:
        def __call__(self, params: P, *, context: ToolContext) -> ToolResult[R]:
            return handle(params, context=context)

        async def method(self, params: P, *, context: ToolContext) -> ToolResult[R]:
            return handle(params, context=context)

    for handler in (Owner(), Owner().method, functools.partial(handle)):
        assert run(make(handler=handler), {"x": 4}) == 'ok\n\n{"y":4}'


@tool(effect=ToolEffect.READ_ONLY)
def greet(name: str, times: Annotated[int, "How often."] = 1, loud: bool | None = None) -> str:
    """Greet somebody.

    More words that are not sent.

    Args:
        name: Whom to greet.
        loud: Whether to
            shout.
    """
    return " ".join([f"hi {name}" + ("!" if loud else "")] * times)


def test_a_plain_function_becomes_a_tool() -> None:
    assert greet.name == "greet"
    assert greet.description == "Greet somebody."
    assert greet.spec.input_schema == {
        "additionalProperties": False,
        "properties": {
            "loud": {"description": "Whether to shout.", "type": "boolean"},
            "name": {"description": "Whom to greet.", "type": "string"},
            "times": {"description": "How often.", "type": "integer"},
        },
        "required": ["name"],
        "type": "object",
    }
    assert run(greet, {"name": "Ada", "times": 2, "loud": True}) == "hi Ada! hi Ada!"


def test_wrap_takes_dataclasses_models_async_context_and_results() -> None:
    @dataclass
    class Local:
        n: int

    async def one(params: Local, context: ToolContext) -> ToolResult[Local]:
        """Give it back."""
        return ToolResult(message=context.tool_call_id[:5], value=params)

    @tool
    def two(params: Model) -> Model:
        """Give it back."""
        return params

    assert run(Tool.wrap(one), {"n": 3}) == 'call_\n\n{"n":3}'
    assert run(two, {"x": 3}) == '{"x":3}'
    assert two.spec.input_schema["properties"] == {"x": {"description": "a number", "minimum": 0, "type": "integer"}}


def test_wrap_refuses_what_can_not_be_described() -> None:
    def untyped(a) -> None:  # type: ignore[no-untyped-def]
        """Words."""

    def variadic(*a: int) -> None:
        """Words."""

    def wordless(a: int) -> None:
        pass

    for function in (untyped, variadic, wordless):
        with pytest.raises(PromptValidationError):
            Tool.wrap(function)


HIDDEN = ["\u202e", "\U000e0041", "\u200b", "\x07"]


@pytest.mark.parametrize("hidden", HIDDEN)
def test_nothing_in_a_schema_is_hidden_from_a_reader(hidden: str) -> None:
    def described(q: Annotated[str, "word" + hidden]) -> str:
        """Does it."""
        return q

    def documented(q: str) -> str:
        return q

    documented.__doc__ = f"Does it.\n\nArgs:\n    q: word{hidden}"

    def chosen(q: Any) -> str:
        """Does it."""
        return ""

    named = create_model("Named", q=(str, Field(alias="q" + hidden)))

    def aliased(params: named) -> str:  # type: ignore[valid-type]
        """Does it."""
        return ""

    aliased.__annotations__["params"] = named
    array: Any = list
    literal: Any = Literal
    chosen.__annotations__["q"] = array[literal["a", "b" + hidden]]
    described.__annotations__["q"] = Annotated[str, "word" + hidden]
    for function, place in (
        (described, "#/properties/q/description"),
        (documented, "#/properties/q/description"),
        (chosen, "#/properties/q/items/enum/1"),
        (aliased, "#/properties/q"),
    ):
        with pytest.raises(PromptValidationError, match=f"invisible character U\\+[0-9A-F]+ at {place}") as caught:
            Tool.wrap(function)
        assert hidden not in str(caught.value)


def test_joiners_and_variation_selectors_are_kept_in_descriptions() -> None:
    joined = "a\u200cb 👩\u200d💻 ✔\ufe0f\n\tmore"
    model = create_model("Shaped", q=(str, Field(description=joined)))

    def shaped(params: Any) -> str:
        """Does it."""
        return ""

    shaped.__annotations__["params"] = model
    assert Tool.wrap(shaped).spec.input_schema["properties"]["q"]["description"] == joined


class Leaf(BaseModel):
    m: int = Field(alias="em")
    more: dict[str, R] = {}

    @computed_field
    def double(self) -> int:
        return 2 * self.m


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 0


class Typed(TypedDict):
    leaf: Leaf


@dataclass
class Branch:
    leaf: Leaf | None
    leaves: list[Leaf | None]
    any: Any
    table: dict[str, Any]
    text: str = ""


class Root(RootModel[list[Branch]]):
    pass


@pytest.mark.parametrize(
    ("kind", "path", "is_there"),
    [
        (Branch, "leaf.em", True),
        (Branch, "leaf.m", False),
        (Branch, "leaf.double", True),
        (Branch, "leaf.more.key.y", True),
        (Branch, "leaf.more.key.z", False),
        (Branch, "leaf.more.*.y", True),
        (Branch, "leaf.*.*.y", True),
        (Branch, "leaf.*.*.z", False),
        (Branch, "leaves.em", True),
        (Branch, "leaves.nope", False),
        (Branch, "any.whatever.it.is", True),
        (Branch, "table.x.y", True),
        (Branch, "text.x", False),
        (Branch, "nope", False),
        (Branch, "*", True),
        (Branch | None, "leaf.em", True),
        (Branch | None, "leaf.nope", False),
        (list[Branch], "leaf.em", True),
        (tuple[Branch, ...], "leaf.nope", False),
        (dict[str, Branch], "key.leaf.em", True),
        (dict[str, Branch], "key.leaf.nope", False),
        (Leaf | Branch, "leaf.em", True),
        (Leaf | Branch, "leaf.nope", False),
        (Root, "leaf.em", True),
        (Root, "leaf.nope", False),
        (Typed, "leaf.em", True),
        (Typed, "leaf.nope", False),
        (Loose, "others.too", True),
        (Any, "a.b", True),
        (dict, "a.b", True),
        (str, "a", False),
        (None, "a", False),
    ],
)
def test_a_public_path_leads_somewhere(kind: Any, path: str, is_there: bool) -> None:
    redactions = [Redaction.paths(path)] + ([Redaction.allow(path)] if path.isalpha() else [])
    for redaction in redactions:
        made = functools.partial(
            Tool, name="t", description="d", handler=None, params_type=P, result_type=kind, redaction=redaction
        )
        if is_there:
            made()
            continue
        with pytest.raises(PromptValidationError, match="which the result does not have") as caught:
            made()
        assert caught.value.placeholder == "redaction"


def yielding(params: P, *, context: ToolContext) -> Iterator[ToolResult[R]]:
    yield ToolResult("", R(1))


async def yielding_later(params: P, *, context: ToolContext) -> AsyncIterator[ToolResult[R]]:
    yield ToolResult("", R(1))


class Yielding:
    def __call__(self, params: P, *, context: ToolContext) -> Iterator[ToolResult[R]]:
        yield ToolResult("", R(1))


@pytest.mark.parametrize("handler", [yielding, yielding_later, functools.partial(yielding), Yielding()])
def test_a_handler_that_yields_is_refused(handler: Any) -> None:
    with pytest.raises(PromptValidationError, match="must not yield"):
        make(handler=handler)


@pytest.mark.parametrize(
    "reconcile", [3, no_context, positional_context, other_keyword, wrong_params, wrong_context, yielding, lambda: None]
)
def test_a_reconcile_of_another_signature_is_refused(reconcile: Any) -> None:
    with pytest.raises(PromptValidationError, match="the reconcile") as caught:
        make(reconcile=reconcile)
    assert caught.value.placeholder == "reconcile"


def test_a_reconcile_returns_what_it_likes() -> None:
    async def later(params: P, *, context: ToolContext) -> ToolResult[R] | None:
        return None

    for reconcile in (handle, later, lambda params, *, context: None):
        assert make(reconcile=reconcile).bound.reconcile is reconcile


@pytest.mark.parametrize(
    ("option", "value", "advice"),
    [
        ("effect", "readonly", "an effect is one of read_only, state_change, external_side_effect, not 'readonly'"),
        ("capabilities", "x", "'capabilities' must be a tuple of types"),
        ("capabilities", ("x",), "'capabilities' must be a tuple of types"),
        ("capabilities", int, "'capabilities' must be a tuple of types"),
        ("inline", "x", "'inline' must be True or False"),
        ("requires_connection", 1, "'requires_connection' must be True or False"),
    ],
)
def test_an_option_of_another_kind_is_refused(option: str, value: Any, advice: str) -> None:
    with pytest.raises(PromptValidationError) as caught:
        make(**{option: value})
    assert advice in str(caught.value)
    assert caught.value.placeholder == option
