"""Parameters have a hash of their content or none at all: two that differ never have the same one."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import pydantic.dataclasses
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator, model_serializer

from demiurge.errors import InvalidValue
from demiurge.tools import (
    EffectLedger,
    IdempotencyConfig,
    Tool,
    ToolContext,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    compute_idempotency_key,
    compute_params_hash,
)
from demiurge.tools.ledger.idempotency import DumpedParams, hash_json

Pair = namedtuple("Pair", "one two")
ItemT = TypeVar("ItemT")


def kind_of(value: object) -> str:
    return type(value).__name__


class TypedPair(NamedTuple):
    one: int
    two: int


class Word(StrEnum):
    YES = "yes"


class Digit(IntEnum):
    ONE = 1


class Number(RootModel[int]):
    pass


class Table(RootModel[dict[str, int]]):
    pass


class Plain:
    pass


@dataclass(frozen=True)
class Order:
    order: str


class Known(Order, Enum):
    FIRST = "first"


class OrderedList(list[Any]):
    pass


@pytest.mark.parametrize(
    "params",
    [
        "order-1",
        "",
        1,
        0,
        True,
        1.5,
        Decimal("1.5"),
        b"order-1",
        bytearray(b"order-1"),
        ["order-1"],
        [],
        ("order-1",),
        (),
        OrderedList(["order-1"]),
        {"order-1"},
        frozenset(),
        range(3),
        Pair(1, 2),
        TypedPair(1, 2),
        Word.YES,
        Digit.ONE,
        Known.FIRST,
        date(2026, 1, 2),
        datetime(2026, 1, 2, tzinfo=UTC),
        UUID(int=1),
        Number(1),
        RootModel[int](1),
        RootModel[str]("order-1"),
        RootModel[list[int]]([1]),
        Table({"root": 1, "other": 2}),
        Plain(),
        object(),
        Order,
        Order.__init__,
        iter([1]),
        ...,
    ],
    ids=kind_of,
)
def test_a_value_that_is_no_set_of_named_parameters_has_no_hash(params: Any) -> None:
    with pytest.raises(InvalidValue, match="a dataclass, a pydantic model, a mapping with text as keys, or None"):
        compute_params_hash(params)
    with pytest.raises(InvalidValue):
        compute_idempotency_key(tool_name="pay", params=params, config=IdempotencyConfig())
    with pytest.raises(InvalidValue):
        compute_idempotency_key(
            tool_name="pay", params=params, config=IdempotencyConfig("params", param_keys=("order",))
        )
    with pytest.raises(InvalidValue):
        EffectLedger().record(idempotency_key="k", tool_name="pay", params=params, result=ToolResult("m"))


def test_a_key_function_may_take_any_parameters() -> None:
    config = IdempotencyConfig("custom", key_fn=lambda params: f"order:{params}")
    assert compute_idempotency_key(tool_name="pay", params="a", config=config) == "session:order:a"


class FrozenMapping(Mapping[str, Any]):
    def __init__(self, **content: Any) -> None:
        self._content = content

    def __getitem__(self, name: str) -> Any:
        return self._content[name]

    def __iter__(self) -> Any:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


class Content(dict[str, Any]):
    pass


MAPPINGS: list[Callable[..., Any]] = [
    OrderedDict,
    Content,
    FrozenMapping,
    lambda **content: UserDict(content),
    lambda **content: MappingProxyType(content),
]
mappings = pytest.mark.parametrize("made", MAPPINGS, ids=["OrderedDict", "dict", "Mapping", "UserDict", "proxy"])


@mappings
def test_a_mapping_has_the_hash_of_a_dict_of_its_content(made: Callable[..., Any]) -> None:
    assert compute_params_hash(made(order="a", lines=[1, 2])) == compute_params_hash({"order": "a", "lines": (1, 2)})
    assert compute_params_hash(made(order="a")) != compute_params_hash(made(order="b"))
    assert compute_params_hash(made()) == compute_params_hash({})


@mappings
def test_a_mapping_inside_a_mapping_counts_by_its_content(made: Callable[..., Any]) -> None:
    assert compute_params_hash({"at": [made(order="a")]}) == compute_params_hash({"at": [{"order": "a"}]})
    assert compute_params_hash(made(at=made(order="a"))) != compute_params_hash(made(at=made(order="b")))


@pytest.mark.parametrize(
    "params",
    [
        {1: "a"},
        {1: "a", "b": 2},
        {None: 1},
        {b"a": 1},
        OrderedDict({1: "a"}),
        MappingProxyType({1: "a"}),
        {"at": MappingProxyType({1: "a"})},
        {"at": {1, 2}},
        {"at": b"a"},
        {"at": Order("a")},
        {"at": float("nan")},
        {"at": "\ud800"},
        OrderedDict(at=object()),
    ],
    ids=kind_of,
)
def test_a_mapping_that_is_no_json_has_no_hash(params: Any) -> None:
    with pytest.raises(InvalidValue):
        compute_params_hash(params)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"a": Order("o")},
            "the parameters hold an Order at a that JSON can't hold: write it as a mapping, or pass it as the "
            "parameters themselves",
        ),
        ({1: 2}, "the parameters have a key that is an int: keys are text, so write it as text"),
        ({"a": [{"b": {None: 1}}]}, "have a key at a[0].b that is a NoneType: keys are text, so write it as text"),
        ({"a": [1, {"at": date(2026, 1, 2)}]}, "hold a date at a[1].at that JSON can't hold: write it as JSON, such"),
        ({"a": {1}}, "hold a set at a that JSON can't hold"),
        ({"a": float("nan")}, "hold a float at a that JSON can't hold: write a finite number"),
        ({"a": "\ud800"}, "hold text at a that JSON can't hold: write text without lone surrogates"),
    ],
    ids=str,
)
def test_a_value_that_is_no_json_is_named_with_its_place(params: Any, said: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        compute_params_hash(params)
    assert said in caught.value.message


def test_only_the_named_fields_of_a_mapping_have_to_be_json() -> None:
    config = IdempotencyConfig("params", param_keys=("order",))
    assert compute_idempotency_key(tool_name="pay", params={"order": 1, "at": {1}}, config=config) is not None


def test_a_mapping_that_contains_itself_has_no_hash() -> None:
    content: dict[str, Any] = {}
    content["itself"] = [content]
    with pytest.raises(InvalidValue, match="contain themselves"):
        compute_params_hash(content)


@pytest.mark.parametrize("params", [None, {}, {"other": 1}, Order("a")], ids=str)
def test_a_key_of_a_field_that_is_not_there_is_refused_by_name(params: Any) -> None:
    with pytest.raises(InvalidValue, match="no 'amount', which the key is made of"):
        compute_idempotency_key(
            tool_name="pay", params=params, config=IdempotencyConfig("params", param_keys=("amount",))
        )


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    order: str = "a"


class Unnamed(BaseModel):
    model_config = ConfigDict(extra="allow")


class Holder(BaseModel):
    held: Open


class TypedExtras(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]


@pytest.mark.parametrize("kind", [Open, Unnamed, TypedExtras])
def test_extras_of_a_model_count(kind: type[BaseModel]) -> None:
    first, other = kind.model_validate({"amount": 5}), kind.model_validate({"amount": 500})
    more = kind.model_validate({"amount": 5, "more": 1})
    none = kind.model_validate({})
    assert len({compute_params_hash(params) for params in (first, other, more, none)}) == 4
    assert compute_params_hash(first) == compute_params_hash(kind.model_validate({"amount": 5}))
    assert compute_params_hash(first) == compute_params_hash({**none.model_dump(), "amount": 5})


def test_extras_of_a_model_in_a_model_count() -> None:
    first, other = (Holder(held=Open.model_validate({"amount": amount})) for amount in (5, 500))
    assert compute_params_hash(first) != compute_params_hash(other)


def test_the_order_of_extras_does_not_count() -> None:
    one, other = Open.model_validate({"x": 1, "y": 2}), Open.model_validate({"y": 2, "x": 1})
    assert compute_params_hash(one) == compute_params_hash(other)


def test_an_extra_can_be_named_in_a_key() -> None:
    config = IdempotencyConfig("params", param_keys=("amount",))
    keys = {
        compute_idempotency_key(tool_name="pay", params=Open.model_validate(content), config=config)
        for content in ({"amount": 5}, {"amount": 5, "note": "x"}, {"amount": 500})
    }
    assert len(keys) == 2


@pytest.mark.parametrize(
    "extra", [{1, 2}, (1, 2), b"x", float("nan"), date(2026, 1, 2), Order("a"), object()], ids=kind_of
)
def test_an_extra_that_json_does_not_give_back_leaves_no_hash(extra: Any) -> None:
    with pytest.raises(InvalidValue):
        compute_params_hash(Open.model_validate({"amount": extra}))


class Aliased(BaseModel):
    model_config = ConfigDict(extra="allow")
    order: str = Field(alias="number")


def test_an_extra_with_the_name_of_a_field_leaves_no_hash() -> None:
    assert compute_params_hash(Aliased.model_validate({"number": "a"})) == compute_params_hash(Order("a"))
    with pytest.raises(InvalidValue):
        compute_params_hash(Aliased.model_validate({"number": "a", "order": "b"}))


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="allow"))
class OpenDataclass:
    order: str = "a"


@dataclass
class Wrapped:
    held: list[OpenDataclass]
    named: dict[str, OpenDataclass] = field(default_factory=dict)


@pytest.mark.parametrize(
    "params",
    [
        OpenDataclass(order="a", amount=5),  # type: ignore[call-arg]
        Wrapped([OpenDataclass(order="a", amount=5)]),  # type: ignore[call-arg]
        Wrapped([], {"x": OpenDataclass(order="a", amount=5)}),  # type: ignore[call-arg]
    ],
    ids=["itself", "in a list", "in a mapping"],
)
def test_extras_that_a_dataclass_does_not_write_leave_no_hash(params: Any) -> None:
    with pytest.raises(InvalidValue, match="can't read back"):
        compute_params_hash(params)


def test_a_dataclass_that_could_have_extras_and_has_none_has_its_hash() -> None:
    assert compute_params_hash(OpenDataclass()) == compute_params_hash(Order("a"))
    assert compute_params_hash(Wrapped([OpenDataclass()])) == compute_params_hash(
        {"held": [{"order": "a"}], "named": {}}
    )


class Summed(BaseModel):
    order: str = "a"

    @model_serializer
    def as_number(self) -> int:
        return 5


class Unreadable(BaseModel):
    order: str = "a"

    @field_validator("order")
    @classmethod
    def breaks(cls, value: str) -> str:
        raise TypeError(value)


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise TypeError


@dataclass
class Strange:
    order: Any


@pytest.mark.parametrize("params", [Summed(), Unreadable(), Strange(Incomparable())], ids=kind_of)
def test_a_value_that_cannot_be_written_and_read_back_leaves_no_hash(params: Any) -> None:
    with pytest.raises(InvalidValue):
        compute_params_hash(params)


@dataclass
class Nothing:
    pass


@dataclass
class Item(Generic[ItemT]):
    order: ItemT


def test_a_dataclass_without_fields_has_the_hash_of_an_empty_object() -> None:
    assert compute_params_hash(Nothing()) == compute_params_hash({})


def test_a_generic_dataclass_counts_by_its_content() -> None:
    assert compute_params_hash(Item("a")) == compute_params_hash(Order("a")) != compute_params_hash(Item("b"))


RIGHT = {
    "none": (None, "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
    "empty": ({}, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
    "dict": ({"a": 1}, "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"),
    "big": ({"a": 2**60}, "4c975b255ce6b4f59eb3361743d10cd87a20249a0fae6d157cd5c76f63c512ce"),
    "model": (Open(), "4271d8889b3334aa0b1050d84cc6009c7edbfb9ee6d174a83a6673804d038320"),
    "dataclass": (Order("a"), "4271d8889b3334aa0b1050d84cc6009c7edbfb9ee6d174a83a6673804d038320"),
    "nested": ({"at": [(1, "x"), {"b": None}]}, "272f6e66ae75541fab5660a5805410753a660532546cb040f4ad797d5519fdda"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_hash_that_was_recorded_stays_as_it_is(name: str) -> None:
    params, recorded = RIGHT[name]
    assert compute_params_hash(params) == recorded


# arguments that only the constructor sees


@dataclass
class Sent:
    order: str
    amount: InitVar[int] = 1

    def __post_init__(self, amount: int) -> None:
        self.cents = 100 * amount


@dataclass
class OnlySent:
    amount: InitVar[int]

    def __post_init__(self, amount: int) -> None:
        self.cents = 100 * amount


@dataclass
class SentBelow:
    lines: list[Sent]


@pytest.mark.parametrize("params", [Sent("a", 5), OnlySent(5), SentBelow([Sent("a", 5)])], ids=kind_of)
def test_a_value_that_only_the_constructor_saw_leaves_no_hash(params: Any) -> None:
    with pytest.raises(InvalidValue, match="can't read back"):
        compute_params_hash(params)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (Sent, {"order": "a", "amount": 5}, {"order": "a", "amount": 500}),
        (OnlySent, {"amount": 5}, {"amount": 500}),
        (SentBelow, {"lines": [{"order": "a", "amount": 5}]}, {"lines": [{"order": "a", "amount": 500}]}),
    ],
)
def test_a_call_is_not_answered_by_one_whose_constructor_saw_something_else(kind: Any, one: Any, other: Any) -> None:
    paid: list[Any] = []

    def pay(params: Any, *, context: ToolContext) -> ToolResult[None]:
        paid.append(params)
        return ToolResult("paid")

    tool = Tool[kind, None](name="pay", description="Pays.", handler=pay, idempotency=IdempotencyConfig())
    runner = ToolRunner([tool], policy=ToolPolicy(("pay",)), ledger=EffectLedger())
    replayed = [runner.exec_sync("pay", arguments).record.replayed for arguments in (one, other, one)]
    assert (replayed, len(paid)) == ([False, False, True], 2)


def test_one_order_is_not_answered_with_anothers_payment() -> None:
    """The pattern of the ledger's page: a key from the parameters, then a look."""
    ledger = EffectLedger()

    def paid(params: Any) -> str | None:
        key = compute_idempotency_key(tool_name="pay", params=params, config=IdempotencyConfig())
        assert key is not None
        found = ledger.lookup(key)
        if found is not None:
            return found.result_message
        result: ToolResult[None] = ToolResult(f"paid {params}")
        ledger.record(idempotency_key=key, tool_name="pay", params=params, result=result)
        return None

    for made in (lambda order: OrderedDict(order=order), lambda order: Open.model_validate({"number": order})):
        first, other = made("a"), made("b")
        assert (paid(first), paid(other), paid(first)) == (None, None, f"paid {first}")


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("sign", ["", "-"])
def test_an_integer_is_written_as_a_number_up_to_the_limit_and_spelled_beyond_it(sign: str) -> None:
    most = int(f"{sign}{2**53 - 1}")
    beyond = int(f"{sign}{2**53}")
    assert compute_params_hash({"a": [most]}) == digest(f'{{"a":[{most}]}}')
    assert compute_params_hash({"a": [beyond, 1]}) == digest(f'spelled{{".a":[{{"integer":"{beyond}"}},1]}}')
    assert compute_params_hash({"a": [beyond, most]}) == digest(f'spelled{{".a":[{{"integer":"{beyond}"}},{most}]}}')


def test_the_hash_of_arguments_that_stand_in_stays_as_it_is() -> None:
    expected = digest('{"arguments":{"x":1}}')
    assert DumpedParams({}, whole=False, sent={"x": 1}).hash() == expected
    assert DumpedParams({"y": 1}, whole=False, sent={"x": 1}).hash_of(("x",)) == expected
    assert DumpedParams({"x": 1}, whole=False).hash_of(("x",)) == digest('{"x":1}')


@pytest.mark.parametrize(
    ("tree", "place"), [(float("nan"), ""), ([float("nan")], " at [0]"), ({"a": [1, float("nan")]}, " at a[1]")]
)
def test_a_value_that_cannot_be_hashed_says_where_it_is(tree: Any, place: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        hash_json(tree)
    words = f"the parameters hold a float{place} that JSON can't hold: write a finite number"
    assert (str(refused.value), refused.value.code) == (words, "invalid_json")
