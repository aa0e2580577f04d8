"""The MCP servers of the world, and which of their tools are trusted.

Over HTTP nothing gets started that this machine's user did not allow: a server with a command is added on the command
line alone, and a server with an address waits there for `demiurge mcp adopt`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from demiurge.bootstrap.backend.mcp_views import McpServerView
from demiurge.mcp.settings import Limits, SamplingGrant, ServerSettings, parse_reference
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import Refused, responses
from demiurge.server.strict_json import StrictJsonRoute

__all__ = ["router"]

router = APIRouter(prefix="/api/mcp", tags=["mcp"], route_class=StrictJsonRoute)

Pin = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
_WRITE = responses(400, 401, 403, 404, 409, 422, 503)


class McpServerList(BaseModel):
    """The MCP servers by name. Their tools have no descriptions, definitions and changes here."""

    servers: list[McpServerView]


class GivenServer(BaseModel):
    """A server at an address. A value of a header is text, or `secret:NAME` for a secret of the machine that has the
    world open. `command` is refused: only the command line of that machine adds a program."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=64)
    url: str | None = Field(None, max_length=8192)
    headers: dict[str, Annotated[str, Field(max_length=8192)]] = Field({}, max_length=64)
    connection_id: str | None = Field(None, max_length=256)
    limits: dict[str, Any] = {}
    sampling: dict[str, Any] | None = Field(
        None, description="`{tokens, requests}`: the server may ask a model during a call; null: it may not."
    )
    roots: bool = Field(False, description="The server may ask which folders a client of the gateway works in.")
    command: list[str] | None = Field(None, description="Refused with `local_only`.")


class GivenTrust(BaseModel):
    """Trust in tools of a server. `tools`: the definitions that the person read, as `found_pin` by tool id; if the
    server lists another definition by now, the answer is `changed` and nothing is trusted. `rule`: whether a person is
    asked before each call. `effect`: what the tools may do; the stricter of it and the server's hints counts. `public`:
    the fields of their results that screens and logs show."""

    model_config = ConfigDict(extra="forbid")
    tools: dict[str, Pin] = Field(min_length=1, max_length=1000)
    rule: Literal["ask", "allow"] = "ask"
    effect: Literal["read_only", "state_change", "external_side_effect"] | None = None
    public: list[Annotated[str, Field(min_length=1, max_length=256)]] = Field([], max_length=100)


class GivenTools(BaseModel):
    """The ids of tools; null: all tools of the server."""

    model_config = ConfigDict(extra="forbid")
    tools: list[str] | None = Field(None, max_length=1000)


@router.get("", responses=responses(401, 403, 503))
async def servers(world: CurrentWorld) -> McpServerList:
    """Lists the servers, as they listed their tools last. Starts none of them."""
    return McpServerList(servers=await world.mcp.list())


@router.get("/{name}", responses=responses(401, 403, 404, 422, 503))
async def one(world: CurrentWorld, name: str) -> McpServerView:
    """Returns a server, with the definitions of its tools and what changed since they were trusted."""
    return await world.mcp.show(name)


@router.post("", status_code=201, responses=_WRITE)
async def add(world: CurrentWorld, given: GivenServer) -> McpServerView:
    """Adds a server at an address. It is asked for nothing before the user of the machine that has the world open runs
    `demiurge mcp adopt`. A literal key or token is refused (`literal_credential`)."""
    if given.command is not None or given.url is None:
        raise Refused(
            403,
            "local_only",
            f"A server with a command is a program, and no program is started because of a request: run `demiurge mcp "
            f"add {given.name} -- COMMAND` on the machine that has the world open. Over HTTP a server needs a `url`.",
        )
    settings = ServerSettings(
        name=given.name,
        transport="http",
        url=given.url,
        headers={
            name: parse_reference(value)[0] if value.startswith("secret:") else value
            for name, value in given.headers.items()
        },
        connection_id=given.connection_id,
        limits=Limits.of_json(given.limits),
        sampling=SamplingGrant.of_json(given.sampling) if given.sampling is not None else None,
        roots=given.roots,
    )
    return await world.mcp.add(settings)


@router.post("/{name}/trust", responses=_WRITE)
async def trust(world: CurrentWorld, name: str, given: GivenTrust) -> McpServerView:
    """Trusts tools of a server: a model sees the definitions that were read, until the server changes one."""
    return await world.mcp.trust(
        name, list(given.tools), rule=given.rule, effect=given.effect, public=given.public, pins=given.tools
    )


@router.post("/{name}/untrust", responses=_WRITE)
async def untrust(world: CurrentWorld, name: str, given: GivenTools) -> McpServerView:
    """Takes the trust in tools of a server away. No model sees them any more."""
    return await world.mcp.untrust(name, given.tools)


@router.post("/{name}/refresh", responses=_WRITE)
async def refresh(world: CurrentWorld, name: str) -> McpServerView:
    """Has a server list its tools now, which may start it. A tool that changed since it was trusted is quarantined."""
    return await world.mcp.refresh(name)


@router.post("/{name}/adopt", responses=_WRITE)
async def adopt(world: CurrentWorld, name: str) -> McpServerView:
    """Refused with `not_here`: only the user of the machine that has the world open says on its command line that a
    server of a world from elsewhere may run there."""
    return await world.mcp.adopt(name)


@router.delete("/{name}", status_code=204, responses=_WRITE)
async def remove(world: CurrentWorld, name: str) -> None:
    """Removes a server with the trust in its tools."""
    await world.mcp.remove(name)
