"""A cassette: a `LanguageModel` that records its traffic with a real provider once, and later plays it back offline.

What is recorded is HTTP: the JSON that was sent and the text that came back, so a playback also runs the decoder of the
provider's format. A request is answered from the file only if it equals a recorded one.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, get_args

import httpx

from demiurge.errors import InvalidValue, UsageError
from demiurge.models.address import address_of, find_key
from demiurge.models.client import ModelClient
from demiurge.models.port import OnEvent
from demiurge.models.providers import PYTHON
from demiurge.models.providers import provider as provider_row
from demiurge.models.request import GenerateRequest
from demiurge.testing.cassette_file import Mask, RecordedExchange, difference, read_cassette, spelled, write_cassette
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import Completion

__all__ = ["VARIABLE", "Cassette", "CassetteMismatch", "Mode"]

Mode: TypeAlias = Literal["once", "none", "all"]

VARIABLE: Final = "DEMIURGE_CASSETTES"
"""The environment variable that sets the mode of every cassette."""

KEPT: Final = ("content-type", "retry-after")
"""The headers of an answer that are stored."""

REFUSED: Final = 400
"""The least status of a refusal. A call that fails with another status is not stored: its answer broke
off, or could not be read."""

SHOWN: Final = 300
"""How many characters of a request that was not made an error shows."""

AGAIN: Final = f"If that is right, record it anew: {VARIABLE}=all, or mode='all'."


class CassetteMismatch(UsageError):
    """A request is not the recorded one, or a recorded one was not made."""

    code = "cassette_mismatch"


class Cassette:
    """A `LanguageModel` whose traffic with the provider is in the file `path` (YAML). Use it as
    `with Cassette(path) as model:`, or `async with`; the end of the block raises CassetteMismatch again if a request
    was not the recorded one, and if recorded requests were not made.

    `mode`: `once` records if the file is not there, else plays it back; `none` never records; `all` records anew. None:
    the variable DEMIURGE_CASSETTES, else `once`. `provider`, `model`, `base_url`, `api_key`: asked in place of what a
    request names; an address and a key that are not given are looked up in the environment when something is recorded.
    A world needs `provider`; `model` is then by default that provider's usual one. `secrets`: texts that must not be
    stored, beside the key and the values of variables named like secrets (KEY, TOKEN, PASSWORD, ...). `ignore`: fields
    of the request's body that need not be equal.

    A request equals a recorded one if method and body do, at any address; each recorded one is played once. Raises
    CassetteMismatch with the difference; NotFound (`no_cassette`), InvalidValue for a mode or a file that is none."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode | None = None,
        provider: str | None = None,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        secrets: Iterable[str] = (),
        ignore: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        chosen = mode or self._environment.get(VARIABLE) or "once"
        if chosen not in get_args(Mode):
            raise InvalidValue(f"is 'once', 'none' or 'all', not {chosen!r}", path="mode")
        self.path = Path(path)
        self.records = chosen == "all" or (chosen == "once" and not self.path.exists())
        """True if requests go to the provider; False if they are answered from the file."""
        self.exchanges: list[RecordedExchange] = [] if self.records else read_cassette(self.path)
        self.mismatch: CassetteMismatch | None = None
        """The first request that was not the recorded one; None so far."""
        self._left = list(self.exchanges)
        asked = {"provider": provider, "model": model, "base_url": base_url}
        self._asked: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        self._key, self._ignore = api_key, frozenset(ignore)
        self._mask = Mask((*secrets, *filter(None, [api_key])), self._environment)

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        """Returns the finished answer, from the provider or from the file. Raises as `ModelClient.generate`, and
        CassetteMismatch; UsageError (`secret_in_answer`: the answer holds a secret, so it is not stored). A failed call
        is stored only if the provider refused it (status 400 or more)."""
        asked = replace(request, **self._asked)
        if asked.provider == PYTHON:
            why = f"A cassette in a world needs its provider: Cassette({str(self.path)!r}, provider='anthropic')."
            raise UsageError(why, code="no_provider")
        row = provider_row(asked.provider)
        if request.provider == PYTHON and "model" not in self._asked:
            asked = replace(asked, model=row.default_model)
        if not self.records:
            # what is sent depends on the address: it is played back for the recorded one, wherever that is
            url = self.exchanges[0].url.removesuffix(row.path) if self.exchanges else asked.base_url
            async with ModelClient(transport=_Player(self._mask, self._play), sleep=_at_once) as client:
                return await client.generate(replace(asked, api_key=None, base_url=url), on_event=on_event)
        address = address_of(row, self._environment, asked.base_url)
        key = self._key or (request.api_key if "provider" not in self._asked else None)
        if key is None:
            key = find_key(row, self._environment, address)
        self._mask.add(key)
        heard: list[RecordedExchange] = []
        async with ModelClient(transport=_Recorder(self._mask, heard)) as client:
            try:
                completion = await client.generate(replace(asked, api_key=key, base_url=address.url), on_event=on_event)
            except ProviderError:
                self._store([each for each in heard if each.status >= REFUSED])
                raise
        self._store(heard, repr(completion))
        return completion

    def _store(self, heard: Sequence[RecordedExchange], said: str = "") -> None:
        """Stores the exchanges if there are any. Raises UsageError (`secret_in_answer`), and stores nothing, if one of
        them or the decoded answer `said` holds a secret."""
        if not heard:
            return
        if any(self._mask(text) != text for text in (said, *(text for each in heard for text in spelled(each)))):
            why = "The model's answer holds a secret, so it is not stored: see the argument `secrets`."
            raise UsageError(why, code="secret_in_answer")
        self.exchanges.extend(heard)
        write_cassette(self.path, self.exchanges)

    def _play(self, exchange: RecordedExchange) -> RecordedExchange:
        """Returns the recorded exchange for a request. Raises CassetteMismatch."""
        asked = self._compared(exchange)
        for at, recorded in enumerate(self._left):
            if self._compared(recorded) == asked:
                return self._left.pop(at)
        number = len(self.exchanges) - len(self._left) + 1
        if self._left:
            found = f"differs from the recorded one:\n{difference(self._compared(self._left[0]), asked)}"
        else:
            found = f"is one too many: {len(self.exchanges)} were recorded, and all were made."
        error = CassetteMismatch(f"Request {number} to the model of cassette {self.path} {found}\n{AGAIN}")
        self.mismatch = self.mismatch or error
        raise error

    def _compared(self, exchange: RecordedExchange) -> dict[str, Any]:
        body = exchange.body
        if isinstance(body, dict):
            body = {name: value for name, value in body.items() if name not in self._ignore}
        return {"method": exchange.method, "body": body}

    def assert_finished(self) -> None:
        """Raises CassetteMismatch if a request was not the recorded one, or if recorded requests were not made."""
        if self.mismatch is not None:
            raise self.mismatch
        if not self.records and self._left:
            left, first = len(self._left), json.dumps(self._left[0].body, ensure_ascii=False)[:SHOWN]
            raise CassetteMismatch(
                f"{left} recorded requests of cassette {self.path} were not made, the next one: {first}\n{AGAIN}"
            )

    def __enter__(self) -> Cassette:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.assert_finished()

    async def __aenter__(self) -> Cassette:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


async def _at_once(_seconds: float) -> None:
    return None


def _exchange(
    request: httpx.Request, mask: Mask, status: int, headers: Mapping[str, str], answer: str
) -> RecordedExchange:
    url = request.url.copy_with(query=None, fragment=None, username=None, password=None)
    body = json.loads(mask(request.content.decode()))
    kept = {name: mask(headers[name]) for name in KEPT if name in headers}
    return RecordedExchange(request.method, mask(str(url)), body, status, kept, mask(answer))


class _Recorder(httpx.AsyncBaseTransport):
    """Sends requests to the provider, and notes each one with its whole answer."""

    def __init__(self, mask: Mask, heard: list[RecordedExchange]) -> None:
        self._mask, self._heard = mask, heard
        self._http = httpx.AsyncClient(follow_redirects=False, timeout=None)  # noqa: S113 - the client has limits

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._http.send(request, stream=True)
        stream = _Noted(response, lambda whole: self._heard.append(self._exchange(request, response, whole)))
        return httpx.Response(response.status_code, headers=response.headers, stream=stream)

    def _exchange(self, request: httpx.Request, response: httpx.Response, whole: bytes) -> RecordedExchange:
        try:
            answer = whole.decode()
        except UnicodeDecodeError:
            why = "The provider's answer is no UTF-8 text, so a cassette can't store it."
            raise UsageError(why, code="not_text") from None
        return _exchange(request, self._mask, response.status_code, response.headers, answer)

    async def aclose(self) -> None:
        await self._http.aclose()


class _Noted(httpx.AsyncByteStream):
    """The bytes of an answer, which `note` is given when the answer was read or is closed."""

    def __init__(self, response: httpx.Response, note: Callable[[bytes], None]) -> None:
        self._response, self._note, self._parts = response, note, list[bytes]()
        self._is_noted = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.aiter_raw():
            self._parts.append(part)
            yield part

    async def aclose(self) -> None:
        await self._response.aclose()
        if not self._is_noted:
            self._is_noted = True
            self._note(b"".join(self._parts))


class _Player(httpx.AsyncBaseTransport):
    """Answers each request with what `play` returns for it; nothing is sent."""

    def __init__(self, mask: Mask, play: Callable[[RecordedExchange], RecordedExchange]) -> None:
        self._mask, self._play = mask, play

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        found = self._play(_exchange(request, self._mask, 0, {}, ""))
        return httpx.Response(found.status, headers=dict(found.headers), stream=_Told(found.answer.encode()))


class _Told(httpx.AsyncByteStream):
    """The bytes of a recorded answer."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._answer
