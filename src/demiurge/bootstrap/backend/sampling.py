"""The model of a world, for servers that ask for one while they work on a call (`tools.model_request`).

Each request is a unit of its own, `demiurge/Sampling@1/<intent of the call>-<number>`, with the server's messages and
nothing else. So it is recorded, and a call that is performed again after a crash gets the answer that was given before.
The limits of a call count what its units hold, so a crash gives no second budget.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from demiurge.apps.demiurge import SAMPLING
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.tools.model_request import ModelAnswer, ModelMessage, ModelRequest
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.wire.items import Message
from demiurge.world.effect import EffectCall
from demiurge.world.messages import expand, user_blob
from demiurge.world.unit import Unit

__all__ = ["ASKED", "WorldModel"]

ASKED: Final = "demiurge/SampleAsked@1"

_NONE: Final = "This world's manifest is from an older version, so its model answers no servers."
_USED_UP: Final = "What the grant of this server allows a call to ask a model is used up."


class WorldModel:
    """The `ModelRequests` of one running tool call. `choice`: the provider and model to ask, unless the unit of the
    call has its own."""

    def __init__(self, call: EffectCall, choice: tuple[str, str]) -> None:
        self._call, self._choice = call, choice
        self._answered: set[Unit] = set()
        self._turn = asyncio.Lock()

    async def ask(self, request: ModelRequest, *, most_requests: int, most_tokens: int) -> ModelAnswer:
        return await self._call.on_host_loop(self._ask(request, most_requests, most_tokens))

    async def _ask(self, request: ModelRequest, most_requests: int, most_tokens: int) -> ModelAnswer:
        services = self._call.services
        if ASKED not in services.manifest.schemas:
            raise Unavailable(_NONE, code="older_definitions")
        async with self._turn:
            used, digest = 0, request.digest
            for number in range(1, most_requests + 1):
                unit = Unit(SAMPLING, f"{self._call.intent.id.hex()}-{number}")
                cell = services.state(unit).cell
                if cell is None:
                    room = most_tokens - used - request.estimated_tokens
                    if room < 1:
                        break
                    await self._send(unit, request, min(request.max_tokens, room))
                elif unit in self._answered or cell["digest"] != digest:
                    used += _tokens(cell)
                    continue
                self._answered.add(unit)
                await services.settle(unit)
                return self._answer(unit)
        raise Unavailable(_USED_UP, code="budget_exceeded")

    async def _send(self, unit: Unit, request: ModelRequest, max_tokens: int) -> None:
        provider, model = self._model()
        refs, attached = [], []
        if request.system:
            refs.append(await self._call.put_blob(_marked(user_blob(request.system, "system"), request.tool)))
        for message in request.messages:
            stored = [(mime, await self._call.put_blob(data)) for mime, data in message.attachments]
            attached += [ref for _, ref in stored]
            refs.append(await self._call.put_blob(_marked(_blob(message, stored), request.tool)))
        value = {
            "sample_id": unit.key,
            "tool": request.tool,
            "digest": request.digest,
            "message_refs": refs,
            "attachment_refs": attached,
            "provider": provider,
            "model": model,
            "max_tokens": max_tokens,
        }
        await self._call.send(ASKED, value, also=unit.key)

    def _model(self) -> tuple[str, str]:
        """Returns the provider and model that the unit of the call talks with, else those of this process."""
        cell: Mapping[str, Any] = self._call.services.state(self._call.unit).cell or {}
        provider, model = cell.get("provider"), cell.get("model")
        return (provider, model) if isinstance(provider, str) and isinstance(model, str) else self._choice

    def _answer(self, unit: Unit) -> ModelAnswer:
        cell = self._call.services.state(unit).cell
        outcome = cell["outcome"] if cell is not None else None
        if cell is None or outcome is None:
            raise Unavailable("The model gave no answer.", code="no_answer")
        if not outcome["ok"]:
            raise Unavailable("The model gave no answer.", code="no_answer")  # why stands in the unit, for people alone
        get = self._call.get_blob
        try:
            items = expand(get(Ref(outcome["output_ref"])), get)
        except DemiurgeError as error:
            raise Unavailable("The model's answer can't be read.", code="no_answer") from error
        text = "".join(item.text for item in items if isinstance(item, Message))
        return ModelAnswer(text, cell["model"], outcome["tokens"], outcome["stop_reason"] == "length")


def _tokens(cell: Mapping[str, Any]) -> int:
    """Returns what a request has used, or may still use."""
    outcome = cell["outcome"]
    return int(outcome["tokens"] if outcome is not None else cell["max_tokens"])


def _blob(message: ModelMessage, attachments: list[tuple[str, Ref]]) -> bytes:
    return user_blob(message.text, message.role, attachments)


def _marked(message: bytes, tool: str) -> bytes:
    """Returns a message whose words are those of an untrusted tool."""
    return canonical_json.encode({**canonical_json.parse_object(message), "untrusted": [tool]})
