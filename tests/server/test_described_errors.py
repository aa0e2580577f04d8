"""The description of the API in OpenAPI: what it is of, how a caller is known, and every error of a path."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.server.conftest import Served

from demiurge.server.callers import cookie_name

ERROR = {"$ref": "#/components/schemas/ErrorBody"}


async def operations(served: Served) -> Iterator[tuple[str, Any]]:
    description = (await (await served.client()).get("/api/openapi.json")).json()
    return (
        (f"{method.upper()} {path}", operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    )


async def test_every_described_error_is_a_code_and_a_message(served: Served) -> None:
    for name, operation in await operations(served):
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert answer["content"]["application/json"]["schema"] == ERROR, (name, status)


async def test_every_path_describes_what_the_server_refuses_before_a_route_is_asked(served: Served) -> None:
    for name, operation in await operations(served):
        expected = {"400"} if name.startswith("GET ") else {"400", "403", "413"}
        assert expected <= set(operation["responses"]), name


async def test_every_path_with_parameters_describes_that_one_may_not_fit(served: Served) -> None:
    for name, operation in await operations(served):
        if operation.get("parameters"):
            assert "422" in operation["responses"], name


async def test_a_body_that_is_too_large_is_refused_as_it_is_described(served: Served) -> None:
    user = await served.client()
    answer = await user.post("/api/chats", content=b"a" * (32 * 2**20 + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


async def test_a_server_describes_what_the_reference_says(served: Served) -> None:
    description = (await (await served.client()).get("/api/openapi.json")).json()
    reference = import_module("docs.http_reference")
    assert reference.page_of(description["paths"]) == Path(reference.__file__ or "").with_name(
        "http-reference.md"
    ).read_text("utf-8")


async def test_the_description_names_the_app_and_both_ways_to_be_known(served: Served) -> None:
    description = (await (await served.client()).get("/api/openapi.json")).json()
    assert description["info"] == {
        "title": "Demiurge",
        "summary": "A durable, governed tool runtime for LLM agents.",
        "version": version("demiurge-runtime"),
    }
    cookie = cookie_name(served.app.state.options)
    assert description["components"]["securitySchemes"] == {
        "token": {"type": "http", "scheme": "bearer", "description": "A token of `demiurge tokens add`."},
        "cookie": {"type": "apiKey", "in": "cookie", "name": cookie, "description": "Set by a login."},
    }
    assert description["security"] == [{"token": []}, {"cookie": []}]
