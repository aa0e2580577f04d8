"""The application of a server: its routes, the guard in front of them, and the tasks that run for its lifetime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from starlette.routing import Route

from demiurge.bootstrap import World
from demiurge.errors import DemiurgeError
from demiurge.server.callers import Callers, cookie_name
from demiurge.server.errors import REASONS, ErrorBody, add_error_handlers
from demiurge.server.guard import Guard
from demiurge.server.mcp_endpoint import PATH, McpEndpoint
from demiurge.server.options import ServeOptions
from demiurge.server.record_feed import RecordFeed
from demiurge.server.routes import (
    ai_chat,
    approvals,
    blobs,
    calls,
    chats,
    cost,
    doubts,
    events,
    issues,
    journal,
    manifest,
    mcp,
    pages,
    prompt_tools,
    proposals,
    session,
    state,
    tool_calls,
    tools,
    trace,
    workspaces,
)

__all__ = ["add_routes", "create_app", "with_refusals"]

LOG = logging.getLogger(__name__)

ROUTES = (
    events,
    ai_chat,
    approvals,
    blobs,
    calls,
    chats,
    cost,
    doubts,
    issues,
    journal,
    manifest,
    mcp,
    prompt_tools,
    proposals,
    state,
    tool_calls,
    tools,
    trace,
    workspaces,
)
"""The modules of routes, in the order in which the path of a request is matched. Events come first, because most
requests are for them."""


class Api(FastAPI):
    """The application, whose description says how a caller is known. `Callers.session` looks at the header and the
    cookie; as dependencies of FastAPI the two schemes would take a fifth of a request's time."""

    def openapi(self) -> dict[str, Any]:
        """Returns the description of the API in OpenAPI."""
        description = with_refusals(super().openapi())
        cookie = cookie_name(self.state.options)
        description["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "A token of `demiurge tokens add`."},
            "cookie": {"type": "apiKey", "in": "cookie", "name": cookie, "description": "Set by a login."},
        }
        description["security"] = [{"token": []}, {"cookie": []}]
        return description


def with_refusals(description: dict[str, Any]) -> dict[str, Any]:
    """Returns a description of the API with what `Guard` answers on every path. Changes `description`."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ErrorBody.__name__}"}}}
    for path in description["paths"].values():
        for method, operation in path.items():
            answers = operation["responses"]
            for status in (400,) if method == "get" else (400, 403, 413):
                answers.setdefault(str(status), {"description": REASONS[status], "content": content})
            operation["responses"] = dict(sorted(answers.items()))
    return description


def create_app(world: World, options: ServeOptions) -> FastAPI:
    """Returns the application that serves an open world. When the application starts, it resumes the world's unfinished
    work. When it ends, the world stays open."""

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncGenerator[None, None]:
        going_on = asyncio.create_task(_go_on(world))
        try:
            yield
        finally:
            app.state.closing.set()
            going_on.cancel()
            await asyncio.gather(going_on, return_exceptions=True)

    app = Api(
        title="Demiurge",
        version=version("demiurge-runtime"),
        summary="A durable, governed tool runtime for LLM agents.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # it would tell what requests hold
        lifespan=running,
    )
    app.state.options = options
    app.state.closing = asyncio.Event()
    app.state.feeds = {sees_records: RecordFeed() for sees_records in (False, True)}
    app.state.callers = Callers(world, world.tokens, options)
    add_routes(app)
    app.router.routes.append(Route(PATH, McpEndpoint(), methods=["GET", "POST", "DELETE"]))
    app.router.routes += pages.router.routes  # last: it answers every path that is left
    add_error_handlers(app)
    app.add_middleware(Guard, options=options)
    return app


def add_routes(app: FastAPI) -> None:
    """Adds the paths of the API."""
    for router in (*(module.router for module in ROUTES), session.router, session.pages):
        app.router.routes += router.routes  # FastAPI looks through the routes of an included router in twice the time


async def _go_on(world: World) -> None:
    """Resumes the work that an earlier process left unfinished."""
    with suppress(asyncio.CancelledError):
        try:
            await world.settle()
        except DemiurgeError as error:
            LOG.warning("What is open in this world cannot go on: %s", error.message)
