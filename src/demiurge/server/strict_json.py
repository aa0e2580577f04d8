"""Request bodies are read as strict JSON: one value for each key, finite numbers, valid Unicode, bounded depth."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from demiurge.errors import InvalidValue
from demiurge.server.errors import Refused
from demiurge.values import canonical_json

__all__ = ["StrictJsonRoute"]


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return canonical_json.parse(await self.body())
        except InvalidValue as error:
            raise Refused(400, "invalid_json", f"The request body cannot be read: {error.message}") from error


class StrictJsonRoute(APIRoute):
    """A route whose JSON bodies are parsed strictly. A body that is not JSON is answered with 400."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly
