"""Sealed values: noise but for one vault, one world and one name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.canaries.search import find_values
from tests.world.effects.vaults import OTHER_KEY, vault_at

from demiurge.errors import InvalidValue, Unavailable
from demiurge.tools.connections.credentials import Secret
from demiurge.world.sealing import Sealing

CANARY = "canary-0123456789-abcdef"
NOWHERE = Path("/nowhere")


def sealing(world: str = "world_1") -> Sealing:
    return Sealing(vault_at(NOWHERE), world)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=200).filter(str.strip), st.binary(max_size=32))
def test_a_sealed_value_opens_again_and_its_bytes_depend_on_name_and_salt(value: str, salt: bytes) -> None:
    data = sealing().seal("a/b", Secret(value), salt)
    assert sealing().open("a/b", data).reveal() == value
    assert data == sealing().seal("a/b", Secret(value), salt)
    assert data != sealing().seal("a/b", Secret(value), salt + b"x")
    assert data[31:] != sealing().seal("a/c", Secret(value), salt)[31:]


def test_no_spelling_of_a_value_is_in_it() -> None:
    assert find_values([CANARY], *(sealing().seal("a/b", Secret(CANARY), bytes([n])) for n in range(64))) == []


@given(st.data())
def test_no_changed_byte_opens(data: st.DataObject) -> None:
    good = sealing().seal("a/b", Secret(CANARY), b"")
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    for wrong in (bad, good[:at]):
        with pytest.raises(InvalidValue) as refused:
            sealing().open("a/b", wrong)
        assert refused.value.code == "sealed_invalid"
        assert find_values([CANARY], refused.value.message) == []


@pytest.mark.parametrize(
    ("other", "alias"),
    [
        (sealing("world_2"), "a/b"),
        (sealing(), "a/c"),
        (Sealing(vault_at(NOWHERE, OTHER_KEY), "world_1"), "a/b"),
    ],
)
def test_nothing_else_opens_it(other: Sealing, alias: str) -> None:
    with pytest.raises(InvalidValue, match="sealed"):
        other.open(alias, sealing().seal("a/b", Secret(CANARY), b""))


@pytest.mark.parametrize("value", ["", " \n", "x" * 16_385, "canary\udcff"])
def test_an_invalid_value_is_not_sealed(value: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        sealing().seal("a/b", Secret(value), b"")
    assert refused.value.code == "bad_secret"
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("alias", ["", "a b", "a@1", "ä", "x" * 129])
def test_a_value_that_is_no_name_gets_none(alias: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        sealing().seal(alias, Secret(CANARY), b"")
    assert refused.value.code == "bad_alias"


def test_without_a_vault_nothing_is_sealed_or_opened() -> None:
    for act in (lambda: Sealing(None, "w").seal("a/b", Secret(CANARY), b""), lambda: Sealing(None, "w").open("a", b"")):
        with pytest.raises(Unavailable):
            act()
