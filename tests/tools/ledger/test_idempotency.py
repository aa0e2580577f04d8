"""Which calls count as the same one: the keys are the seed's, and tell apart whatever differs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from demiurge.errors import InvalidValue
from demiurge.tools import (
    IdempotencyConfig,
    IdempotencyStrategy,
    PromptValidationError,
    Tool,
    ToolContext,
    ToolResult,
    compute_idempotency_key,
    compute_params_hash,
)
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of

ROOT = Path(__file__).parents[3]


class Kind(Enum):
    RUSH = "rush"


@dataclass(frozen=True)
class Line:
    sku: str
    at: date


@dataclass(frozen=True)
class Order:
    order_id: str
    amount: int = 1
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rich:
    when: datetime
    who: UUID
    kind: Kind
    lines: list[Line]
    price: Decimal
    weights: dict[str, float]
    tags: set[str] = field(default_factory=set)
    pairs: frozenset[tuple[str, ...]] = frozenset()


def rich_params(**changes: Any) -> Rich:
    fields: dict[str, Any] = {
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "who": UUID(int=7),
        "kind": Kind.RUSH,
        "lines": [Line("a", date(2026, 1, 2))],
        "price": Decimal("1.10"),
        "weights": {"b": 1.0, "a": 2.5},
        "tags": {"x", "y", "z", "äöü"},
        "pairs": frozenset([("p", "q"), ("r",), ()]),
    }
    return Rich(**{**fields, **changes})


def key(params: Any, **options: Any) -> str | None:
    return compute_idempotency_key(tool_name="create_order", params=params, config=IdempotencyConfig(**options))


def test_the_defaults_are_the_seeds() -> None:
    config = IdempotencyConfig()
    assert (config.strategy, config.ttl, config.scope) == (IdempotencyStrategy.AUTO, timedelta(hours=24), "session")
    assert (config.param_keys, config.key_fn) == ((), None)


def test_a_strategy_may_be_text_and_keys_a_list() -> None:
    names: Any = ["order_id"]
    config = IdempotencyConfig(strategy="params", param_keys=names)
    assert config.strategy is IdempotencyStrategy.PARAMS
    assert config.param_keys == ("order_id",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "params"}, "requires param_keys"),
        ({"strategy": "params", "param_keys": ()}, "requires param_keys"),
        ({"strategy": "params", "param_keys": "order_id"}, "tuple of names"),
        ({"strategy": "params", "param_keys": (1,)}, "tuple of names"),
        ({"strategy": "params", "param_keys": ("",)}, "tuple of names"),
        ({"strategy": "custom"}, "requires key_fn"),
        ({"strategy": "custom", "key_fn": "order"}, "requires key_fn"),
        ({"strategy": "auto", "param_keys": ("order_id",)}, "takes no param_keys"),
        ({"strategy": "none", "key_fn": str}, "takes no key_fn"),
        ({"strategy": "always"}, "auto, params, custom, none"),
        ({"strategy": None}, "auto, params, custom, none"),
        ({"ttl": timedelta()}, "above 0"),
        ({"ttl": timedelta(seconds=-1)}, "above 0"),
        ({"ttl": timedelta(days=36_525, microseconds=1)}, "100 years"),
        ({"ttl": 60}, "timedelta"),
        ({"scope": "a:b"}, "without ':'"),
        ({"scope": None}, "without ':'"),
    ],
)
def test_a_config_that_can_not_be_is_a_value_error_where_it_is_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        IdempotencyConfig(**options)
    assert isinstance(caught.value, PromptValidationError)
    assert caught.value.placeholder == "idempotency"


@pytest.mark.parametrize("ttl", [timedelta(microseconds=1), timedelta(days=36_525)])
def test_a_result_lasts_from_a_microsecond_to_a_hundred_years(ttl: timedelta) -> None:
    assert IdempotencyConfig(ttl=ttl).ttl_ns == ttl // timedelta(microseconds=1) * 1000


class Unwritable(BaseModel):
    thing: Any


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (7, "parameters are a dataclass, a pydantic model, a mapping with text as keys, or None; an int has no names"),
        (Unwritable(thing=object()), "^Unwritable can't be written as JSON$"),
        ({"a": [1, "x"], "b": object()}, "the parameters hold an object at b that JSON can't hold"),
    ],
)
def test_parameters_without_a_hash_are_refused_by_name(params: Any, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        compute_params_hash(params)


def test_auto_keys_are_scope_tool_and_hash() -> None:
    params = Order("o-1")
    assert key(params) == f"session:create_order:{compute_params_hash(params)}"
    assert key(params, scope="") == f"create_order:{compute_params_hash(params)}"
    assert key(params, scope="billing") == f"billing:create_order:{compute_params_hash(params)}"


def test_params_keys_depend_on_the_named_fields_only() -> None:
    options: dict[str, Any] = {"strategy": "params", "param_keys": ("order_id",)}
    one, same, other = (key(params, **options) for params in (Order("o", 1), Order("o", 2), Order("p", 1)))
    assert one == same != other
    assert one is not None
    assert one.startswith("session:create_order:")


def test_custom_keys_are_scope_and_what_the_function_says() -> None:
    def token(params: Order) -> str:
        return f"order:{params.order_id}:token-abc"

    assert key(Order("123"), strategy="custom", key_fn=token) == "session:order:123:token-abc"


@pytest.mark.parametrize("answer", ["", None, 3, b"x"])
def test_a_custom_key_that_is_no_text_is_refused(answer: Any) -> None:
    with pytest.raises(InvalidValue, match="key_fn"):
        key(Order("1"), strategy="custom", key_fn=lambda params: answer)


def test_without_idempotency_there_is_no_key() -> None:
    assert key(Order("1"), strategy="none") is None


def test_the_hash_is_of_the_parameters_as_canonical_json_with_defaults_filled_in() -> None:
    text = canonical_json.encode({"order_id": "o", "amount": 1, "tags": ["a", "b"]})
    assert compute_params_hash(Order("o", tags=frozenset("ba"))) == ref_of(text).removeprefix("sha256:")
    assert compute_params_hash(None) == ref_of(b"null").removeprefix("sha256:")


@pytest.mark.parametrize(
    "changed",
    [
        {"when": datetime(2026, 1, 3, tzinfo=UTC)},
        {"who": UUID(int=8)},
        {"lines": []},
        {"lines": [Line("a", date(2026, 1, 3))]},
        {"price": Decimal("1.11")},
        {"weights": {"a": 2.5}},
        {"tags": {"x"}},
        {"pairs": frozenset([("p",)])},
    ],
)
def test_rich_types_have_a_hash_and_every_difference_shows(changed: dict[str, Any]) -> None:
    assert compute_params_hash(rich_params()) == compute_params_hash(rich_params(weights={"a": 2.5, "b": 1}))
    assert compute_params_hash(rich_params()) != compute_params_hash(rich_params(**changed))


def test_equal_parameters_have_one_hash_in_every_process() -> None:
    code = "from tests.tools.ledger.test_idempotency import *; print(compute_params_hash(rich_params()))"
    hashes = {compute_params_hash(rich_params())}
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=ROOT
        )
        hashes.add(done.stdout.strip())
    assert len(hashes) == 1


@given(st.integers(), st.integers())
def test_integers_of_any_size_are_told_apart(one: int, other: int) -> None:
    same = compute_params_hash(Order("o", one)) == compute_params_hash(Order("o", other))
    assert same is (one == other)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        max_size=4,
    )
)
def test_the_order_of_a_mapping_does_not_count(params: dict[str, Any]) -> None:
    assert compute_params_hash(params) == compute_params_hash(dict(reversed(params.items())))


def test_a_huge_integer_and_its_digits_are_two_things() -> None:
    assert compute_params_hash({"a": 2**60}) != compute_params_hash({"a": str(2**60)})


def test_a_huge_integer_and_what_stands_for_it_are_two_things() -> None:
    huge = 2**60
    looks: list[Any] = [huge, {"integer": str(huge)}, {".integer": str(huge)}]
    trees = [{"a": one, "b": other} for one in looks for other in looks]
    trees += [{f".{name}": value for name, value in tree.items()} for tree in trees]
    assert len({compute_params_hash(tree) for tree in trees}) == len(trees)


def test_1_and_1_point_0_are_one_number() -> None:
    assert compute_params_hash({"a": 1}) == compute_params_hash({"a": 1.0}) != compute_params_hash({"a": True})


class Sealed(BaseModel):
    name: str
    secret: SecretStr = SecretStr("")


class Hidden(BaseModel):
    name: str
    note: str = Field(default="", exclude=True)


@pytest.mark.parametrize("params", [Sealed(name="a", secret=SecretStr("s")), Hidden(name="a", note="n")])
def test_a_field_that_a_type_does_not_serialize_is_not_left_out_of_the_key(params: BaseModel) -> None:
    """A key that leaves a field out would answer one call with another one's result."""
    with pytest.raises(InvalidValue, match="can't read back"):
        compute_params_hash(params)
    assert key(params, strategy="params", param_keys=("name",)) is not None
    with pytest.raises(InvalidValue, match="can't read back"):
        key(params, strategy="params", param_keys=("name", "secret", "note"))


class NoSchema:
    pass


@pytest.mark.parametrize("params", [NoSchema(), Order(3), Order(object()), {"a": object()}])  # type: ignore[arg-type]
def test_a_value_that_is_no_json_has_no_hash(params: Any) -> None:
    with pytest.raises(InvalidValue):
        compute_params_hash(params)


def handler(params: Order, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("done", "")


def order_tool(idempotency: Any, **options: Any) -> Tool[Any, Any]:
    return Tool[Order, str](
        name="create_order", description="Order.", handler=handler, idempotency=idempotency, **options
    )


def test_a_tool_takes_a_config_and_nothing_else() -> None:
    config = IdempotencyConfig()
    assert order_tool(config).bound.idempotency is config
    for wrong in ("auto", True, {"strategy": "auto"}, IdempotencyConfig):
        with pytest.raises(PromptValidationError, match="IdempotencyConfig") as caught:
            order_tool(wrong)
        assert caught.value.placeholder == "idempotency"


def test_a_misspelt_param_key_is_found_when_the_tool_is_made() -> None:
    order_tool(IdempotencyConfig(strategy="params", param_keys=("order_id", "tags")))
    with pytest.raises(PromptValidationError, match="'ordr_id', which the parameters do not have") as caught:
        order_tool(IdempotencyConfig(strategy="params", param_keys=("ordr_id",)))
    assert caught.value.placeholder == "idempotency"


def handler_without_params(params: None, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("done", "")


def modelled(params: Sealed, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult("done", "")


@pytest.mark.parametrize(("kind", "run", "fits"), [(None, handler_without_params, False), (Sealed, modelled, True)])
def test_param_keys_are_fields_of_a_model_too_and_of_no_parameters_never(
    kind: Any, run: Callable[..., Any], fits: bool
) -> None:
    config = IdempotencyConfig(strategy="params", param_keys=("name",))
    options: dict[str, Any] = {"name": "t", "description": "d", "handler": run, "idempotency": config}
    if fits:
        Tool[kind, str](**options)
    else:
        with pytest.raises(PromptValidationError, match="param_keys"):
            Tool[kind, str](**options)
