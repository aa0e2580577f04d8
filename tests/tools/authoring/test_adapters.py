"""Adapters of types: one for a class, and never that of another type."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest
from pydantic.errors import PydanticUserError

from demiurge.tools.authoring.adapters import adapter_of


@dataclass
class Room:
    number: int


@dataclass
class Hall:
    """A class that names one which is not there yet."""

    rooms: Later  # type: ignore[name-defined]  # noqa: F821


def test_a_class_has_one_adapter() -> None:
    assert adapter_of(Room) is adapter_of(Room)
    assert adapter_of(Room).validate_python({"number": 4}) == Room(4)


def test_classes_of_one_name_have_adapters_of_their_own() -> None:
    numbers: Any = make_dataclass("Local", [("value", int)])
    texts: Any = make_dataclass("Local", [("value", str)])
    assert adapter_of(numbers).validate_json('{"value": 4}').value == 4
    assert adapter_of(texts).validate_json('{"value": "4"}').value == "4"


def test_equal_types_that_are_read_otherwise_are_not_mixed_up() -> None:
    either: Any = adapter_of(int | str).core_schema
    other: Any = adapter_of(str | int).core_schema
    assert [part["type"] for part in either["choices"]] == ["int", "str"]
    assert [part["type"] for part in other["choices"]] == ["str", "int"]


def test_a_type_that_is_not_there_yet_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((PydanticUserError, NameError)):
        adapter_of(Hall)
    monkeypatch.setitem(globals(), "Later", Room)
    assert adapter_of(Hall).validate_python({"rooms": {"number": 4}}).rooms == Room(4)
