"""Requests of a server that no person answers: for a model (`sampling/createMessage`) and for folders (`roots/list`).

Each is refused unless the settings of the server grant it. Then the program that asked for the call answers, if it
said that it does; it is the question of a leg, like one to a person. Else a model of ours answers at once, and the list
of folders is empty. What counts against a grant is counted here, for all legs of a call.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mcp_types import (
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ImageContent,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import ValidationError

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.context import ToolContext
from demiurge.tools.input_required import Answer, Question
from demiurge.tools.model_request import Asker, ModelMessage, ModelRequest, ModelRequests

__all__ = ["GrantUse", "RequestResult", "ServerRequest", "ServerRequests", "reply_of"]

ServerRequest: TypeAlias = CreateMessageRequest | ListRootsRequest
RequestResult: TypeAlias = CreateMessageResult | ListRootsResult

_MAX_SHOWN: Final = 1000

NOT_GRANTED: Final = "A model is not offered to this server."
NO_ROOTS: Final = "Folders are not offered to this server."


@dataclass(slots=True)
class GrantUse:
    """The part of a grant that the requests of one call have used, in all legs so far."""

    requests: int = 0
    tokens: int = 0


@dataclass(slots=True)
class ServerRequests:
    """The requests of a server during one leg of a call. `source`: the id of the tool. What our model uses in the leg
    is counted apart, because `ModelRequests` counts it too."""

    settings: ServerSettings
    context: ToolContext
    source: str
    used: GrantUse = field(default_factory=GrantUse)
    _leg: GrantUse = field(default_factory=GrantUse)
    _limit: asyncio.Timeout | None = None
    _left_s: float | None = None
    _asking: int = 0

    def passes(self, kind: str) -> bool:
        """Returns whether the program that asked for the call answers such questions itself."""
        return kind in self.asker.answers

    @property
    def asker(self) -> Asker:
        """The program that asked for the call."""
        return self.context.resources.get(Asker, Asker())

    def require(self, request: ServerRequest) -> None:
        """Raises InvalidValue for a request that the settings grant not, or that has more than an answer in text could
        say, such as tools."""
        if isinstance(request, ListRootsRequest):
            if not self.settings.roots:
                raise InvalidValue(NO_ROOTS)
            return
        grant, params = self.settings.sampling, request.params
        if grant is None:
            raise InvalidValue(NOT_GRANTED)
        if params.tools or params.tool_choice is not None or params.task is not None:
            raise InvalidValue("A model is offered to this server without tools.")
        if params.max_tokens < 1:
            raise InvalidValue("A request for a model names how many tokens the answer may have, at least 1.")
        used = self.used_by_now()
        if used.requests >= grant.requests or used.tokens >= grant.tokens:
            raise InvalidValue("What the grant of this server allows a call to ask a model is used up.")

    def question(self, key: str, request: ServerRequest) -> Question:
        """Returns a request as a question to the program that asked for the call, with no more than the grant allows.
        Raises InvalidValue."""
        self.require(request)
        if isinstance(request, ListRootsRequest):
            return Question(key, "The server asks which folders it may work in.", request={"method": request.method})
        params, grant = request.params, self.settings.sampling
        assert grant is not None
        left = grant.tokens - self.used_by_now().tokens
        bounded = params.model_copy(update={"max_tokens": min(params.max_tokens, left)})
        self.used.requests += 1
        self.used.tokens += bounded.max_tokens
        fields = ("messages", "max_tokens", "system_prompt", "temperature", "stop_sequences", "model_preferences")
        node = bounded.model_dump(mode="json", by_alias=True, exclude_none=True, include=set(fields))
        return Question(key, _shown(bounded), request={"method": request.method, "params": node})

    async def answer(self, request: ServerRequest) -> RequestResult:
        """Answers a request at once, by a model of ours. Raises InvalidValue if it is refused."""
        self.require(request)
        if isinstance(request, ListRootsRequest):
            return ListRootsResult(roots=[])
        grant, models = self.settings.sampling, self.context.resources.get(ModelRequests)
        assert grant is not None
        if models is None:
            raise InvalidValue("There is no model here.")
        asked = _model_request(request.params, self.source)
        requests, tokens = grant.requests - self.used.requests, grant.tokens - self.used.tokens
        async with self._untimed():
            try:
                given = await models.ask(asked, most_requests=requests, most_tokens=tokens)
            except DemiurgeError as error:
                raise InvalidValue(error.message) from error
        self._leg.requests += 1
        self._leg.tokens += given.tokens
        return _result(request.params, given.text, given.model, is_cut=given.is_cut)

    def used_by_now(self) -> GrantUse:
        """Returns what all legs have used, with this one."""
        return GrantUse(self.used.requests + self._leg.requests, self.used.tokens + self._leg.tokens)

    @asynccontextmanager
    async def timed(self, limit_s: float) -> AsyncIterator[None]:
        """Limits the server's time for an answer. The time in which a model answers does not count."""
        try:
            async with asyncio.timeout(limit_s) as self._limit:
                yield
        finally:
            self._limit = None

    @asynccontextmanager
    async def _untimed(self) -> AsyncIterator[None]:
        loop, limit = asyncio.get_running_loop(), self._limit
        self._asking += 1
        with suppress(RuntimeError):  # the time is over already
            if self._asking == 1 and limit is not None and (ends := limit.when()) is not None:
                self._left_s = max(ends - loop.time(), 0)
                limit.reschedule(None)
        try:
            yield
        finally:
            self._asking -= 1
            with suppress(RuntimeError):
                if self._asking == 0 and self._limit is not None and self._left_s is not None:
                    self._limit.reschedule(loop.time() + self._left_s)


def reply_of(kind: str, answer: Answer) -> RequestResult | None:
    """Returns the answer of the program that asked for the call; None if it refused. Raises InvalidValue for one that
    is none."""
    if answer.action != "accept" or answer.content is None:
        return None
    try:
        if kind == "roots":
            return ListRootsResult.model_validate(dict(answer.content))
        return CreateMessageResult.model_validate(dict(answer.content))
    except ValidationError as error:
        raise InvalidValue("The answer to the server's request has not the form of the protocol.") from error


def _shown(params: CreateMessageRequestParams) -> str:
    """Returns the beginning of what a server wants to ask a model, for people."""
    texts = [block.text for message in params.messages for block in _blocks(message) if isinstance(block, TextContent)]
    said = " ".join(filter(None, (params.system_prompt, *texts)))
    return f"The server asks for an answer of a model to: {said[:_MAX_SHOWN]}".rstrip()


def _blocks(message: SamplingMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else [message.content]


def _model_request(params: CreateMessageRequestParams, source: str) -> ModelRequest:
    """Returns a request for a model of ours. `includeContext` and preferences are ignored. Raises InvalidValue."""
    messages = tuple(_message(message) for message in params.messages)
    return ModelRequest(source, messages, params.max_tokens, params.system_prompt or "")


def _message(message: SamplingMessage) -> ModelMessage:
    texts, attached = [], []
    for block in _blocks(message):
        if isinstance(block, TextContent):
            texts.append(block.text)
        elif isinstance(block, ImageContent | AudioContent) and message.role == "user":
            try:
                attached.append((block.mime_type, base64.b64decode(block.data, validate=True)))
            except (binascii.Error, ValueError):
                raise InvalidValue("An image or a sound in a request for a model is no base64.") from None
        else:
            raise InvalidValue("A model is offered texts, and images and sounds of the user, and nothing else.")
    return ModelMessage(message.role, "\n\n".join(texts), tuple(attached))


def _result(params: CreateMessageRequestParams, text: str, model: str, *, is_cut: bool) -> CreateMessageResult:
    """Returns an answer, cut at the first text at which the server wants it to stop."""
    ends = [found for stop in params.stop_sequences or () if stop and (found := text.find(stop)) >= 0]
    reason = "stopSequence" if ends else "maxTokens" if is_cut else "endTurn"
    content = TextContent(text=text[: min(ends)] if ends else text)
    return CreateMessageResult(role="assistant", content=content, model=model, stop_reason=reason)
