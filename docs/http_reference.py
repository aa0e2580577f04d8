"""The reference of the HTTP API, made from the description that the server gives of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI

from demiurge.server.app import add_routes, with_refusals

HEAD = """# HTTP reference

Every path of the API, its parameters and its answers. [HTTP](http.md) says what each is for. A server gives the same
description in OpenAPI at `/api/openapi.json`. An error is `{"code", "message"}`.

This page is made by `docs/generate.py` from the application's routes.
"""


def page() -> str:
    """Returns the page."""
    app = FastAPI(title="Demiurge", version="0")
    add_routes(app)
    return page_of(with_refusals(app.openapi())["paths"])


def page_of(paths: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the page about these paths of a description in OpenAPI."""
    lines = [line for path in sorted(paths) for line in _path(path, paths[path])]
    return HEAD + "\n".join(lines) + "\n"


def _path(path: str, methods: Mapping[str, Any]) -> Iterator[str]:
    for method, operation in methods.items():
        yield f"\n## `{method.upper()} {path}`\n"
        yield operation["description"]
        yield ""
        for parameter in operation.get("parameters", ()):
            about = parameter.get("description") or parameter["schema"].get("description", "")
            needed = ", needed" if parameter.get("required") else ""
            yield f"* `{parameter['name']}` ({parameter['in']}{needed}) {about}".rstrip()
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            yield f"* body: {kind}{_named(content)}"
        for status, answer in operation["responses"].items():
            kinds = [f"{kind}{_named(content)}" for kind, content in answer.get("content", {}).items()]
            told = "" if int(status) >= 400 else f" {', '.join(kinds)}"
            yield f"* {status}:{told} {answer['description']}".replace(" Successful Response", "").rstrip()


def _named(content: Mapping[str, Any]) -> str:
    schema = content.get("schema", {})
    name = schema["title"] if "properties" in schema else schema.get("$ref", "").rpartition("/")[2]
    return f" `{name}`" if name else ""
