"""Paths with a method that they do not have, paths that are not there, and bodies of another type."""

from __future__ import annotations

from tests.server.conftest import Served

LACKED = (
    ("GET", "/api/events", "POST"),
    ("GET", "/api/journal/verify", "POST"),
    ("HEAD", "/api/events", "POST"),
    ("HEAD", "/api/info", "GET"),
    ("PUT", "/api/info", "GET"),
    ("DELETE", "/api/chats", "GET, POST"),
    ("POST", "/api/workspace/main/file", "DELETE, GET, PUT"),
    ("POST", "/api/state/demiurge/Demiurge@1", "GET"),
    ("PATCH", "/mcp", "DELETE, GET, HEAD, POST"),
    ("DELETE", "/chats/c1", "GET, HEAD"),
)
"""A method, a path that lacks it, and the methods that the path has."""


async def test_a_method_that_a_path_lacks_is_said(served: Served) -> None:
    user = await served.client()
    for method, path, allowed in LACKED:
        answer = await user.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), (method, path)
        if method != "HEAD":
            message = f"This path does not take {method}; it takes {allowed}."
            assert answer.json() == {"code": "no_method", "message": message}


async def test_a_path_that_is_not_there_is_said(served: Served) -> None:
    user = await served.client()
    answer = await user.get("/api/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_path")


async def test_a_body_that_is_not_declared_as_json_is_said_to_be_that(served: Served) -> None:
    user = await served.client()
    for path in ("/api/chats", "/api/events", "/api/tools/order_part/call", "/api/ai/chat"):
        for kind in ({}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
            answer = await user.post(path, content=b"{}", headers=kind)
            assert (answer.status_code, answer.json()["code"]) == (422, "validation"), kind
            assert "Content-Type: application/json" in answer.json()["message"], kind
