"""Logging in and out, and who the caller is."""

from __future__ import annotations

from html import escape
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from demiurge.server.callers import CurrentSession, callers_of, cookie_name, csrf_of
from demiurge.server.errors import Refused, responses
from demiurge.server.options import ServeOptions
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["pages", "router"]

router = APIRouter(prefix="/api", tags=["session"], route_class=StrictJsonRoute)
pages = APIRouter(include_in_schema=False)

COOKIE_S = 30 * 24 * 3600
VERSION: Final = version("demiurge-runtime")
OPEN: Final[dict[str, Any]] = {"security": []}
"""The entry of OpenAPI of a path that needs no token."""

NO_LOGIN: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    '<title>Log in to Demiurge</title><p>{message}</p><p><a href="/">Log in with a token</a></p></html>'
)
"""The page for a person whose login link logs nobody in."""


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"
    version: str


class Login(BaseModel):
    """A code of a login link, or a token."""

    model_config = ConfigDict(extra="forbid")
    code: str | None = Field(None, max_length=200)
    token: str | None = Field(None, max_length=200)


class CallerView(BaseModel):
    """The caller, and the model that the chats of this world ask. `csrf` is the value of the header
    `x-demiurge-csrf`, which a write with a cookie needs."""

    actor: str
    tenant: str
    roles: list[str]
    provider: str
    model: str
    csrf: str


@router.get("/health", openapi_extra=OPEN)
async def health() -> Health:
    """Says that the server answers. Needs no token."""
    return Health(version=VERSION)


@router.get("/session", responses=responses(401))
async def session(current: CurrentSession) -> CallerView:
    """Returns who the caller is."""
    caller = current.token.caller
    choice = current.world.choice
    return CallerView(
        actor=caller.actor,
        tenant=caller.tenant,
        roles=list(caller.roles),
        provider=choice.provider,
        model=choice.model,
        csrf=csrf_of(current.secret),
    )


@router.get("/openapi.json", responses=responses(401))
async def openapi(request: Request, _current: CurrentSession) -> dict[str, Any]:
    """Returns the description of this API in OpenAPI."""
    app: FastAPI = request.app
    return app.openapi()


@router.post("/login", status_code=204, responses=responses(400, 401, 422, 429), openapi_extra=OPEN)
async def login(request: Request, response: Response, given: Login) -> None:
    """Gives a browser the cookie of a session, for the code of a login link or a token."""
    secret = await callers_of(request).login(_address(request), code=given.code, token=given.token)
    _set_cookie(request, response, secret)


@router.post("/logout", status_code=204, responses=responses(401, 403))
async def logout(request: Request, response: Response, current: CurrentSession) -> None:
    """Ends the session of a browser. A token that was made by `demiurge tokens add` stays good elsewhere."""
    if current.token.is_session:
        await callers_of(request).tokens.revoke(current.token.id)
    response.delete_cookie(cookie_name(_options(request)))


@pages.get("/login")
async def follow_link(request: Request, code: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Logs a browser in by the link that `demiurge serve` prints. If the link was used before, a browser that is logged
    in goes on to the pages, and another one gets a page that says what to do."""
    callers = callers_of(request)
    try:
        secret = await callers.login(_address(request), code=code, token=None)
    except Refused as refused:
        try:
            await callers.session(request)
        except Refused:
            return HTMLResponse(NO_LOGIN.format(message=escape(refused.message)), refused.status_code)
        return RedirectResponse("/", 303)
    answer = RedirectResponse("/", 303)
    _set_cookie(request, answer, secret)
    return answer


def _set_cookie(request: Request, response: Response, secret: str) -> None:
    options = _options(request)
    response.set_cookie(
        cookie_name(options), secret, max_age=COOKIE_S, secure=options.tls, httponly=True, samesite="strict"
    )


def _options(request: Request) -> ServeOptions:
    options: ServeOptions = request.app.state.options
    return options


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""
