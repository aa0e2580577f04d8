"""The server of the tests in this folder."""

from __future__ import annotations

import pytest
from tests.bootstrap.mcp.mcp_worlds import Shop


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A server that each owner in this process reaches as `shop`."""
    made = Shop()
    made.connect(monkeypatch)
    return made
