from __future__ import annotations

import re

import pytest

from demiurge.values import FixedClock, SeededEntropy, SystemClock, SystemEntropy, new_id


def test_the_system_clock_goes_on() -> None:
    clock = SystemClock()
    assert clock.now_ns() > 1_700_000_000 * 10**9
    assert clock.monotonic_ns() <= clock.monotonic_ns()


def test_a_fixed_clock_stands_still_or_steps() -> None:
    still, stepping = FixedClock(5), FixedClock(5, step_ns=2)
    assert [still.now_ns(), still.monotonic_ns()] == [5, 5]
    assert [stepping.now_ns(), stepping.monotonic_ns(), stepping.now_ns()] == [5, 7, 9]
    still.advance(10)
    assert still.now_ns() == 15


def test_seeded_entropy_repeats_itself_only_for_the_same_seed() -> None:
    one, same, other = SeededEntropy(7), SeededEntropy("7"), SeededEntropy(b"8")
    drawn = [one.token(100), one.token(3), one.token(0)]
    assert drawn == [same.token(100), same.token(3), same.token(0)]
    assert [len(token) for token in drawn] == [100, 3, 0]
    assert drawn[0] != other.token(100)
    assert SeededEntropy(7).token(32) != one.token(32)


def test_system_entropy_does_not_repeat() -> None:
    entropy = SystemEntropy()
    assert len(entropy.token(16)) == 16
    assert entropy.token(16) != entropy.token(16)


@pytest.mark.parametrize("prefix", ["call", "call_"])
def test_ids_have_a_prefix_and_24_letters_or_digits(prefix: str) -> None:
    entropy = SeededEntropy(1)
    ids = {new_id(prefix, entropy) for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"call_[a-z0-9]{24}", name) for name in ids)
    assert len(set("".join(ids)) - {"_"}) == 36
