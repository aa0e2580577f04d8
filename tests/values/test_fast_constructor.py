from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.values.fast_constructor import fast_constructor


@dataclass(frozen=True, slots=True)
class Point:
    kind: ClassVar[str] = "point"
    x: int
    y: Any
    tags: list[str] = field(default_factory=list, hash=False)
    note: str = field(default="", compare=False, repr=False)
    weight: int = field(default=1, kw_only=True)


@dataclass(frozen=True, slots=True)
class Checked:
    low: int
    high: int
    size: int = field(init=False)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("upside down")
        object.__setattr__(self, "size", self.high - self.low)


draft = fast_constructor(Point)


@given(st.integers(), st.integers() | st.text(), st.lists(st.text()), st.text(), st.integers())
def test_a_draft_becomes_what_the_class_itself_makes(x: int, y: Any, tags: list[str], note: str, weight: int) -> None:
    made, other = draft(x, y, tags, note=note, weight=weight), Point(x, y, tags, note=note, weight=weight)
    assert type(made) is Point
    assert made == other
    assert (repr(made), hash(made)) == (repr(other), hash(other))
    assert [getattr(made, entry.name) for entry in fields(made)] == [x, y, tags, note, weight]
    assert replace(made, x=0) == replace(other, x=0)
    assert copy.deepcopy(made) == pickle.loads(pickle.dumps(made)) == other


def test_defaults_are_the_class_s() -> None:
    first, second = draft(1, 2), draft(1, 2)
    assert first == Point(1, 2)
    assert first.tags is not second.tags
    assert first.kind == "point"


def test_nothing_can_be_set_afterwards() -> None:
    made = draft(1, 2)
    with pytest.raises(FrozenInstanceError):
        made.x = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del made.y
    with pytest.raises(AttributeError):
        object.__setattr__(made, "other", 1)


def test_arguments_are_counted() -> None:
    wrong: list[list[Any]] = [[], [1], [1, 2, [], "", 5]]
    for arguments in wrong:
        with pytest.raises(TypeError):
            draft(*arguments)


def test_a_fast_constructor_runs_the_checks_of_its_class() -> None:
    assert fast_constructor(Checked)(2, 5) == Checked(2, 5)
    with pytest.raises(ValueError, match="upside down"):
        fast_constructor(Checked)(5, 2)
