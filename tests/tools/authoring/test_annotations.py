"""What a function's annotations may look like: a tool works with them, or is refused when it is made."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeAlias, TypeVar, Union

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from demiurge.tools import (
    EffectLedger,
    IdempotencyConfig,
    PromptValidationError,
    Redaction,
    Tool,
    ToolContext,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    tool,
)
from demiurge.tools.authoring.bytes_text import with_text_bytes
from demiurge.tools.authoring.named_types import named_type
from demiurge.tools.authoring.signature import UNKNOWN, payload_of
from demiurge.values.refs import ref_of

KindT = TypeVar("KindT")


@dataclass(frozen=True)
class Params:
    n: int = 1


@dataclass(frozen=True)
class Sum:
    total: int = 1


class Model(BaseModel):
    total: int = 1


class Coded(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    content: bytes = b"\xff"


@dataclass
class Holds:
    content: bytes = b"\xff"


class Own(ToolResult[Sum]):
    pass


class Generically(ToolResult[KindT]):
    pass


class Both(Generic[KindT], ToolResult[list[KindT]]):
    pass


Plain: TypeAlias = ToolResult[Sum]
Alias = TypeAliasType("Alias", ToolResult[Sum])
Items = TypeAliasType("Items", ToolResult[list[KindT]], type_params=(KindT,))
OwnSum = TypeAliasType("OwnSum", Sum)
Lost = TypeAliasType("Lost", "ToolResult[Nowhere]")  # type: ignore[name-defined]  # noqa: F821
New = NewType("New", ToolResult[Sum])
NewSum = NewType("NewSum", Sum)


def ran(made: Tool[Any, Any], **options: Any) -> ToolExecResult:
    return ToolRunner([made], policy=ToolPolicy((made.name,)), **options).exec_sync(made.name, "{}")


def tool_with(annotation: Any, answer: Any, **options: Any) -> Tool[Any, Any]:
    def count(n: int = 1) -> Any:
        """Counts."""
        return answer() if callable(answer) else answer

    count.__annotations__["return"] = annotation
    return tool(**options)(count)


BINARY = b"\xff\x00"
SAID_OF_BINARY = f"2 bytes that are not text, {ref_of(BINARY)}"


RESULT = ToolResult("m", Sum(2))
TEXT = 'm\n\n{"total":2}'
WORKING: dict[str, tuple[Any, Any, Any, str]] = {
    "ToolResult": (ToolResult[Sum], RESULT, Sum, TEXT),
    "bare": (ToolResult, RESULT, Any, TEXT),
    "an alias": (Plain, RESULT, Sum, TEXT),
    "a named alias": (Alias, RESULT, Sum, TEXT),
    "a named alias of the value": (OwnSum, Sum(2), OwnSum, '{"total":2}'),
    "a generic alias": (Items[int], ToolResult("", [1]), list[int], "[1]"),
    "annotated": (Annotated[ToolResult[Sum], "the sum"], RESULT, Sum, TEXT),
    "annotated twice": (Annotated[Annotated[ToolResult[Sum], "the"], "sum"], RESULT, Sum, TEXT),
    "annotated inside": (ToolResult[Annotated[int, Field(ge=1)]], ToolResult("", 1), None, "1"),
    "optional": (Optional[ToolResult[Sum]], RESULT, Sum, TEXT),  # noqa: UP045
    "optional, and there is none": (Optional[ToolResult[Sum]], None, Sum, ""),  # noqa: UP045
    "or None": (ToolResult[Sum] | None, RESULT, Sum, TEXT),
    "annotated and optional": (Annotated[ToolResult[Sum] | None, "the sum"], RESULT, Sum, TEXT),
    "optional and annotated": (Annotated[ToolResult[Sum], "the sum"] | None, RESULT, Sum, TEXT),
    "optional inside": (ToolResult[Sum | None], ToolResult("m"), Sum | None, "m"),
    "a union": (Union[ToolResult[Sum], ToolResult[Model]], ToolResult("m", Model(total=2)), Sum | Model, TEXT),  # noqa: UP007
    "a union with a value": (ToolResult[Sum] | str, "text", Sum | str, "text"),
    "a union with a value, as a result": (ToolResult[Sum] | str, RESULT, Sum | str, TEXT),
    "a union of three": (ToolResult[Sum] | str | None, None, Sum | str, ""),
    "a union with a bare one": (ToolResult | None, RESULT, Any, TEXT),
    "a string": ("ToolResult[Sum]", RESULT, Sum, TEXT),
    "a string of a union": ("Optional[ToolResult[Sum]]", RESULT, Sum, TEXT),
    "a string inside": (ToolResult["Sum"], RESULT, Sum, TEXT),
    "a string that names nothing": ("ToolResult[Nowhere]", RESULT, Any, TEXT),
    "an alias that names nothing": (Annotated[Any, "x"], RESULT, None, TEXT),
    "a NewType": (New, RESULT, Sum, TEXT),
    "a NewType of the value": (NewSum, Sum(2), NewSum, '{"total":2}'),
    "a subclass": (Own, Own("m", Sum(2)), Sum, TEXT),
    "a generic subclass": (Generically[Sum], Generically("m", Sum(2)), Sum, TEXT),
    "a generic subclass without its type": (Generically, Generically("m", Sum(2)), Any, TEXT),
    "a subclass that says list": (Both[int], Both("", [1]), list[int], "[1]"),
    "a type variable": (ToolResult[KindT], RESULT, Any, TEXT),  # type: ignore[valid-type]
    "None": (None, None, None, ""),
    "the literal None": (Literal[None], None, None, ""),
    "the literal None as a value": (ToolResult[Literal[None]], ToolResult("m"), None, "m"),
    "an iterable": (Iterable[int], [1, 2], Iterable[int], "[1,2]"),
    "an iterable as a tuple": (Iterable[int], (1, 2), Iterable[int], "[1,2]"),
    "an iterable that can be read once": (Iterable[int], lambda: iter([1, 2]), Iterable[int], "[1,2]"),
    "a generator": (Generator[int, None, None], lambda: (n for n in (1, 2)), None, "[1,2]"),
    "text as bytes": (bytes, b"text", bytes, "text"),
    "bytes": (bytes, BINARY, bytes, SAID_OF_BINARY),
    "bytes that look like base64": (bytes, b"base64:/wA=", bytes, "base64:/wA="),
    "bytes in a result": (ToolResult[bytes], ToolResult("", BINARY), bytes, SAID_OF_BINARY),
    "bytes or None": (bytes | None, BINARY, bytes | None, SAID_OF_BINARY),
    "no bytes": (Optional[bytes], None, bytes | None, ""),  # noqa: UP045
    "bytes of a model that says how": (Coded, Coded(), Coded, '{"content":"_w=="}'),
}


@pytest.mark.parametrize("name", WORKING)
def test_an_annotation_that_is_taken_works(name: str) -> None:
    annotation, answer, result_type, text = WORKING[name]
    made = tool_with(annotation, answer, idempotency=IdempotencyConfig())
    if result_type is not None or annotation is None:
        assert made.result_type == result_type
    ledger = EffectLedger()
    first = ran(made, ledger=ledger)
    assert (first.ok, first.error_code, first.content) == (True, None, text)
    again = ran(made, ledger=ledger)
    assert (again.ok, again.content) == (True, text)
    assert again.record.replayed


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (list[bytes], "bytes within a value"),
        (dict[str, bytes], "bytes within a value"),
        (ToolResult[tuple[bytes, ...]], "bytes within a value"),
        (Holds, "bytes within a value"),
        (bytes | int, "bytes within a value"),
        (Callable[[], int], "a function or a class"),
        (ToolResult[type], "a function or a class"),
        (type[int], "a function or a class"),
        (list[Callable[[], int]], "a function or a class"),
        (Awaitable[ToolResult[Sum]], "Awaitable has no form in JSON; use the type of what it comes to, with `async"),
        (Coroutine[Any, Any, Sum], "Coroutine has no form in JSON; use the type of what it comes to"),
        (Iterator[int], "Iterator has no form in JSON; use list$"),
        (AsyncIterator[int], "AsyncIterator has no form in JSON; use list$"),
        (bytearray, "bytearray has no form in JSON; use bytes$"),
        (memoryview, "memoryview has no form in JSON; use bytes$"),
        (list[bytearray], "bytearray has no form in JSON; use bytes$"),
        (range, "range has no form in JSON; use a dataclass, a pydantic model or a type of JSON$"),
        (KindT, "is not a type"),
    ],
    ids=str,
)
def test_an_annotation_that_could_not_work_is_refused_when_the_tool_is_made(annotation: Any, words: str) -> None:
    with pytest.raises(PromptValidationError, match=words):
        tool_with(annotation, None)


def test_a_parameter_without_a_form_in_json_is_refused_in_the_same_words() -> None:
    def store(data: bytearray) -> int:
        """Stores."""
        return len(data)

    with pytest.raises(PromptValidationError, match=r"bytearray has no form in JSON; use bytes$"):
        Tool.wrap(store)


@pytest.mark.parametrize(
    "value", [b"", b"text", "ü".encode(), b"\xff", b"base64:", b"base64:eA==", b"base64:??", b"\x00"]
)
def test_bytes_come_back_as_they_were(value: bytes) -> None:
    bound = tool_with(bytes, value).bound
    assert bound.load(bound.dump(value)) == value


def test_each_bytes_have_their_own_text() -> None:
    bound = tool_with(bytes, b"").bound
    assert bound.dump(b"x") != bound.dump(b"base64:eA==")


@pytest.mark.parametrize("value", ["text", bytearray(b"x"), 1])
def test_a_value_that_is_no_bytes_is_refused(value: Any) -> None:
    assert ran(tool_with(bytes, value)).error_code == "output_validation"


def test_a_result_of_another_type_is_still_refused() -> None:
    assert ran(tool_with(Optional[ToolResult[Sum]], ToolResult("m", 3))).error_code == "output_validation"  # noqa: UP045
    assert ran(tool_with(Own, Own("m", 3))).error_code == "output_validation"  # type: ignore[arg-type]


def test_a_redaction_finds_the_fields_behind_an_annotation() -> None:
    made = tool_with(Annotated[ToolResult[Sum] | None, "x"], RESULT, redaction=Redaction.allow("total"))
    assert ran(made).value == {"total": 2}
    with pytest.raises(PromptValidationError, match="redaction names 'other'"):
        tool_with(Annotated[ToolResult[Sum] | None, "x"], RESULT, redaction=Redaction.allow("other"))


# handlers of the specification's form


def handler(annotation: Any, params: Any = Params) -> Callable[..., Any]:
    def add(params: Any, *, context: ToolContext) -> Any:
        return RESULT

    add.__annotations__.update({"params": params, "return": annotation})
    return add


def declared(run: Callable[..., Any], result: Any = Sum) -> Tool[Any, Any]:
    return Tool[Params, result](name="add", description="Adds.", handler=run)


@pytest.mark.parametrize("annotation", [Alias, New, Own, Generically[Sum], Annotated[ToolResult[Sum], "x"], ToolResult])
def test_a_handler_may_name_its_result_in_another_way(annotation: Any) -> None:
    assert ran(declared(handler(annotation))).content == TEXT


@pytest.mark.parametrize("annotation", [ToolResult[Sum] | None, Sum, ToolResult[Model], Generically[Model], Items[Sum]])
def test_a_handler_that_returns_something_else_is_refused(annotation: Any) -> None:
    with pytest.raises(PromptValidationError, match="returns"):
        declared(handler(annotation))


@pytest.mark.parametrize("params", [Annotated[Params, "x"], NewType("P", Params), TypeAliasType("P", Params)])
def test_a_handlers_parameters_may_have_another_name(params: Any) -> None:
    assert ran(declared(handler(ToolResult[Sum], params))).ok


def test_the_literal_none_is_none() -> None:
    def nothing(params: None, *, context: ToolContext) -> ToolResult[None]:
        return ToolResult("m")

    def literally(params: Literal[None], *, context: ToolContext) -> ToolResult[Literal[None]]:
        return ToolResult("m")

    for kinds in ((None, None), (Literal[None], None), (None, Literal[None]), (type(None), type(None))):
        for run in (nothing, literally):
            made = Tool[kinds](name="none", description="Nothing.", handler=run)  # type: ignore[misc, valid-type]
            assert (made.params_type, made.result_type) == (None, None)
            assert ran(made).content == "m"


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (None, type(None)),
        (Literal[None], type(None)),
        (Literal[None, 1], Literal[None, 1]),
        (Annotated[NewType("N", Annotated[Sum, 1]), 2], Sum),
        (Lost, Lost),
        (3, 3),
    ],
)
def test_the_type_behind_a_name(annotation: Any, kind: Any) -> None:
    assert named_type(annotation) == kind


def test_an_annotation_without_a_result_is_its_own_payload() -> None:
    for annotation in (Sum, Sum | None, list[ToolResult[Sum]], Any, UNKNOWN):
        assert payload_of(annotation) == annotation


def test_only_bytes_alone_are_written_as_text() -> None:
    for kind in (int, list[bytes], bytes | int, bytes | int | None, None):
        assert with_text_bytes(kind) == kind


# subclasses


class Adds(Tool[Params, Sum]):
    pass


class AddsMore(Adds):
    pass


class AnyTool(Tool[KindT, Sum]):
    pass


class Of(Generic[KindT]):
    pass


class Mixed(Of[int], Tool[Params, Sum]):
    pass


@pytest.mark.parametrize("kind", [Adds, AddsMore, Mixed])
def test_a_subclass_of_a_tool_keeps_the_types_that_it_names(kind: Any) -> None:
    made = kind(name="add", description="Adds.", handler=handler(ToolResult[Sum]))
    assert (type(made), made.params_type, made.result_type) == (kind, Params, Sum)
    assert set(made.spec.input_schema["properties"]) == {"n"}
    assert ran(made).content == TEXT
    with pytest.raises(PromptValidationError, match="returns"):
        kind(name="add", description="Adds.", handler=handler(ToolResult[Model]))


def test_a_subclass_has_no_other_types_than_it_names() -> None:
    assert Adds[Params, Sum](name="add", description="d", handler=None).params_type is Params  # type: ignore[misc]
    with pytest.raises(PromptValidationError, match="declares another type"):
        Adds[Params, Model](name="add", description="d", handler=None)  # type: ignore[misc]


def test_a_subclass_that_names_no_types_asks_for_them() -> None:
    with pytest.raises(PromptValidationError, match="name its types"):
        AnyTool(name="add", description="d", handler=None)


# what is given as a tool


def plain(n: int) -> int:
    """Counts."""
    return n


class Shop:
    def order(self, n: int) -> int:
        return n

    def __call__(self, n: int) -> int:
        return n


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Shop().order, "tool 'order': write a docstring or pass description="),
        (Shop(), r"a Shop among the tools has no name: write Tool\.wrap\(it, name="),
        (lambda n: n, "the type of parameter 'n' is missing"),
        (Shop, "tools are Tools or functions, not Shop"),
        ("plain", "not str"),
        (3, "not int"),
    ],
)
def test_a_value_that_is_no_tool_is_refused_with_what_to_do(entry: Any, words: str) -> None:
    with pytest.raises(PromptValidationError, match=words):
        ToolRunner([entry])


@pytest.mark.parametrize("entry", [plain, tool(plain), tool(plain).bound])
def test_one_tool_alone_is_refused_with_what_to_do(entry: Any) -> None:
    with pytest.raises(PromptValidationError, match="put this one into a list"):
        ToolRunner(entry)
