"""Paths with a method that they do not have, and paths that are not there."""

from __future__ import annotations

import pytest
from tests.server.conftest import Served


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/events", "POST"),
        ("GET", "/api/journal/verify", "POST"),
        ("HEAD", "/api/events", "POST"),
        ("HEAD", "/api/info", "GET"),
        ("PUT", "/api/info", "GET"),
        ("POST", "/api/state/demiurge/Demiurge@1", "GET"),
    ],
)
async def test_a_method_that_a_path_lacks_is_said(served: Served, method: str, path: str, allowed: str) -> None:
    user = await served.client()
    answer = await user.request(method, path)
    assert answer.status_code == 405
    assert allowed in answer.headers["allow"]
    assert method == "HEAD" or answer.json()["code"] == "no_method"


async def test_a_path_that_is_not_there_is_said(served: Served) -> None:
    user = await served.client()
    answer = await user.get("/api/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_path")
