"""One request to a model provider over HTTP, streamed.

Invariant: no request that costs money is sent twice. A retry happens only if the provider cannot have begun to answer:
the connection failed, or it answered 429, 500, 502, 503 or 529. After the first byte of an answer (a 200), or if the
connection broke or fell silent after the request was sent, the error is raised and the caller decides. So no attempt
repeats what a watcher has seen.

The client makes all retries: it waits as long as the provider asks (`retry_after`, `retry`), lets other requests to the
same address and key wait too (`rate_limit`), and never waits longer than the request's own time.

Every failure at the provider is a ProviderError with a closed code and one sentence; neither ever holds the key, even
if the provider quotes it. Redirects are not followed: a key is sent only to the address that it was given for.

An answer is as large as its bytes on the wire: compression is neither requested nor decoded, so size limits count the
bytes read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from ssl import SSLContext
from types import TracebackType

import httpx

from demiurge.errors import UsageError
from demiurge.models.delivery import read_delivery
from demiurge.models.payload import build, is_guided
from demiurge.models.port import OnEvent
from demiurge.models.providers import PYTHON, Provider, StreamDecoder, provider
from demiurge.models.rate_limit import Endpoint, RateLimitGate
from demiurge.models.request import GenerateRequest
from demiurge.models.retry import Retry
from demiurge.models.scrub import scrub, scrub_error
from demiurge.models.textcalls import TextCalls
from demiurge.tools.events import AiEvent
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy
from demiurge.wire.errors import ProviderError, provider_error
from demiurge.wire.fields import mend_surrogates
from demiurge.wire.items import Completion

__all__ = ["ModelClient"]

CONNECT_S = 10.0
READ_IDLE_S = 120.0
_MAX_ERROR_BYTES = 64 * 1024
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
# A request on a connection that the server is closing could not be sent again. So idle connections are
# dropped before servers drop them, and servers on this machine (small ones close at will) get a new one each time;
# those are also never asked for through a proxy.
_LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=10, keepalive_expiry=2.0)
_NO_REUSE = httpx.Limits(max_connections=100, max_keepalive_connections=0)
_LOOPBACK = ("all://127.0.0.1", "all://localhost", "all://[::1]")


@cache
def _trusted_certificates() -> SSLContext:
    """Reads the certificates that this machine trusts once in a process: it takes 50 ms, and a client needs them
    several times."""
    return httpx.create_ssl_context()


class ModelClient:
    """A `LanguageModel` for every provider of the table, with one connection pool. Close it with `aclose` or `async
    with`.

    `connect_s` limits the time to connect, `read_idle_s` the silence between two parts of an answer, the request's
    `timeout_s` the whole request. Of the local model, which is as slow as its machine is busy, `timeout_s` limits the
    silence alone: as long as it reads the prompt or writes, it has time. A cancelled request closes its connection at
    once. `clock` and `sleep` belong together: waits are measured by the clock. `transport`: what sends the requests,
    in place of the pool.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        connect_s: float = CONNECT_S,
        read_idle_s: float = READ_IDLE_S,
        retries: int = 3,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._retry = Retry(self._clock, self._entropy, retries)
        self._gate = RateLimitGate(self._clock)
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(read_idle_s, connect=connect_s),
            limits=_LIMITS,
            follow_redirects=False,
            transport=transport,
            verify=_trusted_certificates(),
            mounts=None
            if transport
            else dict.fromkeys(_LOOPBACK, httpx.AsyncHTTPTransport(limits=_NO_REUSE, verify=_trusted_certificates())),
        )

    async def __aenter__(self) -> ModelClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def generate(self, request: GenerateRequest, *, on_event: OnEvent | None = None) -> Completion:
        """Returns the finished answer; calls `on_event` as it grows.

        Raises ProviderError for every failure of the provider or the network, UsageError for an unknown provider or a
        provider without an address, InvalidValue for a request that cannot be encoded.
        """
        row = provider(request.provider)
        base_url = (request.base_url or row.base_url or "").rstrip("/")
        if row.name == PYTHON:
            raise UsageError(
                "Name the provider that is asked over HTTP, such as provider='openai-chat'.", code="no_provider"
            )
        if not base_url:
            raise UsageError(f"The provider {row.name} needs a base URL.", code="no_base_url")
        message = self._message(row, request, base_url)
        emit = on_event or _ignore
        try:
            async with asyncio.timeout(request.timeout_s) as limit:
                heard = _restarting(limit, request.timeout_s) if row.limit_restarts else _nothing
                return await self._attempts(row, request, message, emit, heard)
        except TimeoutError:
            raise ProviderError(code="timeout") from None
        except ProviderError as error:
            raise scrub_error(error, request.api_key) from None

    def _message(self, row: Provider, request: GenerateRequest, base_url: str) -> httpx.Request:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "User-Agent": "demiurge"}
        headers |= {"Content-Type": "application/json", **row.headers}
        if request.api_key:
            if not request.api_key.isascii() or not request.api_key.isprintable() or " " in request.api_key:
                raise ProviderError(
                    "The API key holds characters that a key can't have; copy it again.",
                    code="authentication",
                )
            headers[row.key_header] = row.key_form.format(request.api_key)
        if request.idempotency_key:
            headers["Idempotency-Key"] = request.idempotency_key
        body = json.dumps(build(row, request, base_url), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        try:
            made = self._http.build_request(
                "POST", base_url + row.path, headers=headers, content=mend_surrogates(body).encode()
            )
        except httpx.InvalidURL:
            raise UsageError("The base URL is not a web address.", code="bad_base_url") from None
        if row.limit_restarts:
            made.extensions["timeout"] |= {"read": request.timeout_s}
        return made

    async def _attempts(
        self,
        row: Provider,
        request: GenerateRequest,
        message: httpx.Request,
        emit: OnEvent,
        heard: Callable[[], None],
    ) -> Completion:
        endpoint = (f"{message.url.scheme}://{message.url.netloc.decode()}", request.api_key)
        deadline = self._now_s() + request.timeout_s
        attempt = 0
        while True:
            await self._admitted(endpoint, deadline)
            try:
                async with self._open(message) as response:
                    if response.status_code == 200:
                        return await self._answer(row, request, response, emit, heard)
                    error = await _refusal(response, request.api_key)
                    wait = self._retry.after_refusal(attempt, error, response.headers)
            except httpx.TransportError as cause:
                error = _transport_error(cause, message.url.host)
                wait = self._retry.after_transport(attempt, cause)
            if wait is not None and error.status == 429:
                self._gate.close(endpoint, wait)
            if wait is None or not self._has(wait, deadline):
                raise error
            attempt += 1
            if error.status != 429:
                await self._sleep(self._retry.spread(wait))

    async def _admitted(self, endpoint: Endpoint, deadline: float) -> None:
        """Waits while a refusal, of this request or another, closes the endpoint. Raises ProviderError if the wait
        exceeds the request's time."""
        waited_for = 0
        while (until := self._gate.closed_until(endpoint)) > waited_for:
            wait = self._retry.spread(max(0.0, until / 1e9 - self._now_s()))
            if not self._has(wait, deadline):
                raise ProviderError(code="rate_limit", status=429)
            await self._sleep(wait)
            waited_for = until

    def _has(self, seconds: float, deadline: float) -> bool:
        return self._now_s() + seconds < deadline

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    @asynccontextmanager
    async def _open(self, message: httpx.Request) -> AsyncIterator[httpx.Response]:
        response = await self._http.send(message, stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    async def _answer(
        self,
        row: Provider,
        request: GenerateRequest,
        response: httpx.Response,
        emit: OnEvent,
        heard: Callable[[], None],
    ) -> Completion:
        """Decodes a 200. Its failures are final: none of them leaves as an httpx error, which could be retried."""
        text_calls = None
        if row.writes_calls_as_text:
            names = frozenset(spec.name for spec in request.specs) if request.tool_choice != "none" else frozenset()
            text_calls = TextCalls(names, is_guided(row, request), self._entropy, emit)
            emit = text_calls.add_event
        if _is_encoded(response):
            raise ProviderError(code="bad_response", status=200, detail="the answer is compressed, unasked")
        decoder: StreamDecoder = row.wire.Decoder()
        try:
            await _pump(response, decoder, emit, heard)
        except httpx.TimeoutException:
            raise ProviderError(code="timeout", status=200) from None
        except httpx.TransportError:
            raise ProviderError(code="truncated", status=200) from None
        completion = replace(decoder.close(), delivery=read_delivery(response.headers, request.api_key))
        return completion if text_calls is None else text_calls.finish(completion)


def _restarting(limit: asyncio.Timeout, seconds: float) -> Callable[[], None]:
    """Returns a function that lets a time limit count anew."""
    return lambda: limit.reschedule(asyncio.get_running_loop().time() + seconds)


def _nothing() -> None:
    return None


async def _pump(response: httpx.Response, decoder: StreamDecoder, emit: OnEvent, heard: Callable[[], None]) -> None:
    size = 0
    async for chunk in response.aiter_raw():
        heard()
        size += len(chunk)
        if size > _MAX_ANSWER_BYTES:
            raise ProviderError(code="bad_response", status=200, detail="the answer is longer than 64 MiB")
        for event in decoder.feed(chunk):
            emit(event)


async def _refusal(response: httpx.Response, key: str | None) -> ProviderError:
    """Returns the error for an answer that is not a 200; unreadable parts are left out."""
    body = b"" if _is_encoded(response) else await _head(response)
    status = response.status_code
    if status < 400:
        return ProviderError(code="bad_response", status=status, detail=f"the address answered with status {status}")
    return provider_error(scrub(body[:_MAX_ERROR_BYTES].decode("utf-8", "replace"), key), status)


async def _head(response: httpx.Response) -> bytes:
    """Returns the first bytes of the body; none if the body breaks off."""
    body = b""
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) >= _MAX_ERROR_BYTES:
                break
    except httpx.RequestError:
        return b""
    return body


def _is_encoded(response: httpx.Response) -> bool:
    names = {name.strip().lower() for name in response.headers.get("Content-Encoding", "").split(",")}
    return not names <= {"", "identity"}


def _transport_error(cause: httpx.TransportError, host: str) -> ProviderError:
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout):
        return ProviderError(
            f"No connection to {host} could be made; check the network and the base URL.",
            code="provider_unavailable",
        )
    if isinstance(cause, httpx.TimeoutException):
        return ProviderError(code="timeout")
    if isinstance(cause, httpx.UnsupportedProtocol):
        return ProviderError("The base URL must begin with http:// or https://.", code="invalid_request")
    return ProviderError(
        f"The connection to {host} broke before an answer came; the request may have been carried out.",
        code="provider_unavailable",
        retryable=False,
    )


def _ignore(_: AiEvent) -> None:
    return None
