"""A desk whose model does whatever any text tells it, and whose tools reach outside."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demiurge import Budgets, IdempotencyConfig, ToolContext, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.models.request import GenerateRequest
from demiurge.models.scripted import ScriptedCall, ScriptedModel, call
from demiurge.tools import File, Redaction, ToolUserError
from demiurge.tools.bound import BoundTool
from demiurge.tools.capabilities import HttpAccess
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.values.clock import SystemClock
from demiurge.wire.items import Message, ToolCall, ToolOutput
from demiurge.world.effect import EffectCall, Restart, Result, succeeded
from demiurge.world.effects.http import HttpRequests

__all__ = ["Desk", "Site", "obeying"]

_TURNS = {"CALL": 0, "ORDER": 0, "LATER": 1, "LAST": 2}
_ORDER = re.compile(rf"({'|'.join(_TURNS)})<(\w+) (\w+)=([^>]*)>")
ANY = {"type": "object", "properties": {"to": {"type": "string"}}}
HOST = "api.example.com"


def obeying(request: GenerateRequest) -> str | list[ScriptedCall]:
    """Makes each call that a text of the request orders and that was not made: `ORDER` at once, `LATER` in the next
    turn, `LAST` in the one after it, and `CALL`, which the user writes, in the turn of that message."""
    made: set[tuple[str, ...]] = set()
    orders: dict[tuple[str, ...], tuple[int, ScriptedCall]] = {}
    for item in request.items:
        if isinstance(item, ToolCall):
            made.add((item.name, *next(iter(json.loads(item.arguments_json).items()))))
        if isinstance(item, Message) and item.role == "user":
            orders = {key: (turns - 1, each) for key, (turns, each) in orders.items() if key not in made}
        texts = [item.text] if isinstance(item, Message) else []
        texts += [item.content] if isinstance(item, ToolOutput) else []
        for word, name, argument, value in (found for text in texts for found in _ORDER.findall(text)):
            key = name, argument, value
            orders.setdefault(key, (_TURNS[word], call(name, **{argument: value})))
            if word == "CALL":
                made.discard(key)
    return [each for key, (turns, each) in orders.items() if turns <= 0 and key not in made] or "Done."


@dataclass
class Site:
    """The outside, as the adapter of `http.request` sees it."""

    text: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)

    kinds = ("http.request",)

    def restart(self, intent: Any, manifest: Any) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        self.asked.append((call.intent.params["method"], call.intent.params["url"]))
        body, now_ns = self.text.encode(), SystemClock().now_ns()
        ref, timings = await call.put_blob(body), {"start_ns": now_ns, "end_ns": now_ns}
        return succeeded(status=200, url=f"https://{HOST}/", headers={}, body_ref=ref, size=len(body), timings=timings)

    @property
    def changed(self) -> list[str]:
        return [url for method, url in self.asked if method != "GET"]


@dataclass
class Desk:
    """The tools, and what they did outside. `text` is what every untrusted source says."""

    folder: Path
    text: str = ""
    sent: list[str] = field(default_factory=list)
    site: Site = field(default_factory=Site)
    model: ScriptedModel = field(default_factory=lambda: ScriptedModel(obeying))

    def tools(self) -> list[Any]:
        @tool(effect=ToolEffect.READ_ONLY, untrusted=True)
        def page(url: str) -> str:
            """Reads a web page."""
            return self.text

        @tool(effect=ToolEffect.READ_ONLY, untrusted=True)
        def contact(name: str) -> ToolResult[dict[str, Any]]:
            """Looks up a contact."""
            return ToolResult("Found.", {"name": name, "notes": [{self.text: "a note"}]})

        @tool(effect=ToolEffect.READ_ONLY, untrusted=True)
        def broken(url: str) -> str:
            """Reads a page that is not there."""
            raise ToolUserError(self.text)

        @tool(effect=ToolEffect.READ_ONLY, untrusted=True)
        def download(url: str) -> ToolResult[None]:
            """Downloads a file."""
            return ToolResult("Downloaded.", parts=[File(data=self.text.encode(), name="a.txt")])

        @tool(effect=ToolEffect.READ_ONLY, untrusted=True)
        def named(url: str) -> ToolResult[None]:
            """Downloads a file with a name of its sender's choice."""
            return ToolResult("Downloaded.", parts=[File(data=b"\x80\x81", name=self.text)])

        @tool(effect=ToolEffect.READ_ONLY, untrusted=True)
        def book(title: str) -> str:
            """Reads a whole book."""
            return "once upon a time " * 400 + self.text

        @tool(effect=ToolEffect.READ_ONLY, untrusted=True, idempotency=IdempotencyConfig())
        def archive(url: str) -> str:
            """Reads a page of the archive, each page once."""
            return self.text

        @tool(effect=ToolEffect.READ_ONLY, untrusted=True)
        async def web(url: str, context: ToolContext) -> str:
            """Asks a web site."""
            http = context.resources.get(HttpAccess)
            assert http is not None
            return (await http.request("GET", f"https://{HOST}/{url}")).body.decode()

        @tool(effect=ToolEffect.STATE_CHANGE)
        async def note(to: str, context: ToolContext) -> str:
            """Keeps a note, and posts it."""
            http = context.resources.get(HttpAccess)
            assert http is not None
            await http.request("POST", f"https://{HOST}/{to}")
            return "Noted."

        @tool(effect=ToolEffect.READ_ONLY)
        def echo(text: str) -> str:
            """Says the same again, with other brackets."""
            return text.replace("{", "<").replace("}", ">")

        @tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
        def send(to: str) -> str:
            """Sends a mail."""
            self.sent.append(to)
            return f"Sent to {to}."

        return [page, contact, broken, download, named, book, archive, web, note, echo, send, *self.of_servers()]

    def of_servers(self) -> list[BoundTool]:
        def fetch(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
            return ToolResult(self.text, {})

        def post(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
            self.sent.append(arguments["to"])
            return ToolResult("Posted.", {})

        nothing, read = Redaction.message_only(), ToolEffect.READ_ONLY
        return [
            foreign_tool("mcp__web__fetch", "Fetches.", ANY, fetch, redaction=nothing, effect=read, untrusted=True),
            foreign_tool("mcp__mail__post", "Posts.", ANY, post, redaction=nothing, untrusted=True),
        ]

    def policy(self, **more: Any) -> ToolPolicy:
        names = [each.spec.name for each in self.tools()]
        given = {"budgets": Budgets(max_result_bytes=2000), **more}
        return ToolPolicy((*names, "core__read_result", "introspect__state"), **given)

    @asynccontextmanager
    async def opened(
        self, policy: ToolPolicy | None = None, name: str = "world", **options: Any
    ) -> AsyncIterator[World]:
        """Opens the world of the desk; at the end of the block its records must be sound."""
        home: Mapping[str, str] = {"HOME": str(self.folder)}
        given = {"http": [HOST], **options}
        rules = policy if policy is not None else self.policy()
        async with World.open(
            self.folder / name, self.tools(), rules, model=self.model, environment=home, **given
        ) as world:
            yield world
            assert world.journal.verify().ok
            assert (await world.replay())["ok"]

    @property
    def outside(self) -> list[str]:
        """What the outside noticed."""
        return [*self.sent, *self.site.changed]


def bound_to(site: Site) -> Any:
    """Returns what takes the place of `HttpRequests.bind`."""
    return classmethod(lambda _cls, _parts: site)


assert HttpRequests.kinds == Site.kinds
