"""The pytest plugin `demiurge`: three fixtures. pytest finds it by itself; `-p no:demiurge` turns it off.

Nothing of Demiurge is imported before a test asks for a fixture.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from demiurge import World
    from demiurge.testing import FrozenClock, ScriptedModel


@pytest.fixture
def scripted_model() -> ScriptedModel:
    """A ScriptedModel without answers: `scripted_model.say(call("add", a=1, b=2), "It is 3.")` adds some."""
    from demiurge.testing import ScriptedModel

    return ScriptedModel()


@pytest.fixture
def frozen_clock() -> FrozenClock:
    """A FrozenClock at 2030-01-01T00:00:00Z."""
    from demiurge.testing import FrozenClock

    return FrozenClock()


@pytest.fixture
def demiurge_world(
    scripted_model: ScriptedModel, frozen_clock: FrozenClock
) -> Callable[..., AbstractAsyncContextManager[World]]:
    """`memory_world` with the model and the clock of the test: `async with demiurge_world([tool]) as world:`."""
    from demiurge.testing import memory_world

    return partial(memory_world, model=scripted_model, clock=frozen_clock)
