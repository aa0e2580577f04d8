"""How an error of a world becomes an HTTP answer: a status and the body `{code, message}`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from demiurge.errors import (
    Conflict,
    Damaged,
    DemiurgeError,
    Divergence,
    InvalidValue,
    NotFound,
    Unavailable,
    UsageError,
)

__all__ = [
    "REASONS",
    "ErrorBody",
    "Refused",
    "add_error_handlers",
    "error_body",
    "error_response",
    "responses",
    "status_of",
]

LOG = logging.getLogger(__name__)

_STATUSES: Final = {
    InvalidValue: 422,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    Damaged: 500,
    Divergence: 500,
    UsageError: 400,
}
_CODES: Final = {
    "role_missing": 403,
    "core_tool_locked": 403,
    "path_not_allowed": 403,
    "not_here": 403,
    "not_found": 404,
    "exists": 409,
    "not_empty": 409,
    "not_allowed": 409,
    "no_action": 409,
    "layer_damaged": 409,
    "too_large": 413,
    "bad_path": 422,
}
"""Codes with a status of their own, whatever their class."""

REASONS: Final = {
    400: "The request cannot be read, or asks for something that cannot be.",
    401: "No valid token or cookie came with the request.",
    403: "The caller lacks the role for this, or the request came from another site.",
    404: "There is no such thing.",
    409: "Somebody else was first, or the state does not allow it now.",
    413: "The request is too large.",
    416: "The blob has no such range.",
    422: "A value does not fit its schema.",
    429: "Too many failed logins; wait a minute.",
    503: "The world cannot do this now; nothing was lost.",
}


class ErrorBody(BaseModel):
    """An error."""

    code: str = Field(description="A stable code, in lower case.", examples=["not_found"])
    message: str = Field(description="A sentence that says what happened and what to do.")
    details: dict[str, Any] | None = Field(
        None,
        description="Of a conflict: who was first, when and with what. Of `invalid_proposal`: `problems`, each with "
        "its `field`.",
    )


class Refused(HTTPException):
    """An answer of the server itself, before a world is asked. `status_code` is an HTTP status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, message)
        self.code, self.message = code, message


def status_of(error: DemiurgeError) -> int:
    """Returns the HTTP status for an error of a world."""
    if error.code in _CODES:
        return _CODES[error.code]
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 500)


def error_response(status: int, code: str, message: str, details: Mapping[str, Any] | None = None) -> JSONResponse:
    """Returns the answer for an error. No part of it is markup: a lone surrogate becomes `?`."""
    return JSONResponse(error_body(code, message, details), status)


def error_body(code: str, message: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns an error as every answer and every stream has it (`ErrorBody`)."""
    body: dict[str, Any] = {"code": code, "message": _text(message)}
    if details:
        body["details"] = {name: _text(value) if isinstance(value, str) else value for name, value in details.items()}
    return body


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the entries of OpenAPI for these statuses, each with an `ErrorBody`."""
    return {status: {"model": ErrorBody, "description": REASONS[status]} for status in sorted(statuses)}


def add_error_handlers(app: FastAPI) -> None:
    """Makes every failure of a route an answer with an `ErrorBody`."""
    app.add_exception_handler(DemiurgeError, _of_world)
    app.add_exception_handler(Refused, _of_server)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_routing)
    app.add_exception_handler(ClientDisconnect, _of_client_gone)
    app.add_exception_handler(Exception, _unexpected)


async def _of_world(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DemiurgeError)
    return error_response(status_of(error), error.code, error.message, error.details)


async def _of_server(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return error_response(error.status_code, error.code, error.message)


async def _of_request(request: Request, error: Exception) -> JSONResponse:
    """Names the places that are wrong, never the values: they may be secret."""
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    if any(tuple(each["loc"]) == ("body",) for each in found) and not _is_json(request):
        what = "The request body is not declared as JSON: send it with Content-Type: application/json."
        return error_response(422, "validation", what)
    told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:5])
    return error_response(422, "validation", told)


async def _of_routing(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return error_response(404, "no_path", "There is no such path.")
    if error.status_code == 405:
        allowed = ", ".join(_methods(request))
        answer = error_response(405, "no_method", f"This path does not take {request.method}; it takes {allowed}.")
        answer.headers["allow"] = allowed
        return answer
    answer = error_response(error.status_code, "http", str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _of_client_gone(_request: Request, _error: Exception) -> Response:
    """Answers a client that left before the end of its request: for the access log alone."""
    return Response(status_code=400)


def _methods(request: Request) -> list[str]:
    """Returns every method that the path of a request has. Each route knows only its own."""
    routes = (route for route in request.app.router.routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


async def _unexpected(_request: Request, error: Exception) -> JSONResponse:
    """The text of an unexpected error stays in the log: it may quote what nobody should see."""
    LOG.error("A request failed unexpectedly (%s).", type(error).__name__, exc_info=error)
    return error_response(500, "internal", "The server failed unexpectedly; its log says more.")
