"""Request bodies are read as strict JSON: one value for each key, finite numbers, valid Unicode, bounded depth."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from demiurge.errors import InvalidValue
from demiurge.server.errors import Refused
from demiurge.values import canonical_json

__all__ = ["PlainRoute", "StrictJsonRoute", "read_json"]

Model = TypeVar("Model", bound=BaseModel)


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


class PlainRoute(APIRoute):
    """A route for a path that is so busy that FastAPI's solving of parameters would be most of the cost. Its function
    takes the request, of which it reads everything itself (`read_json`), and returns the answer. `openapi_extra`
    describes the parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle_plainly(request: Request) -> Response:
            answer: Response = await self.endpoint(_StrictRequest(request.scope, request.receive))
            return answer

        return handle_plainly


async def read_json(request: Request, model: type[Model]) -> Model:
    """Returns the body of a request. Raises Refused (400) for a body that is not strict JSON, RequestValidationError
    for a Content-Type that is not JSON, and for a value that does not fit the model."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestValidationError([{"type": "", "loc": ["body"], "msg": "Content-Type is not application/json"}])
    try:
        return model.model_validate(await request.json())
    except ValidationError as error:
        found = [{"type": each["type"], "loc": ["body", *each["loc"]], "msg": each["msg"]} for each in error.errors()]
        raise RequestValidationError(found) from error
