"""What the tests of the ledger begin with: an empty one, and a shop that nobody has ordered from."""

from __future__ import annotations

import pytest
from tests.tools.order_shop import Shop

from demiurge import EffectLedger


@pytest.fixture
def ledger() -> EffectLedger:
    return EffectLedger()


@pytest.fixture
def shop() -> Shop:
    return Shop()
