"""The HTTP client under the SDK's streamable HTTP transport: it bounds what is read and keeps failures apart.

The SDK reads an answer to its end and lets the errors of the network end the whole connection. Here a body has a limit
and arrives uncompressed, and an error of one request is an answer to that request. Notes on the request
(`flow.CallNote`) say whether it can have reached the server.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx2

from demiurge.errors import Unavailable
from demiurge.mcp.flow import CallNote, current_note

__all__ = ["BoundedHttpClient"]

_CONNECT_S: Final = 30.0
_READ_S: Final = 300.0
_EVENTS_FACTOR: Final = 4
_MAX_STREAMS: Final = 60
"""How many GET requests a connection may make; a server that ends each stream at once would else be asked for ever."""

_SERVER_ERROR: Final = -32000


class BoundedHttpClient(httpx2.AsyncClient):
    """A client for the endpoint `url` whose answers have at most `limit` bytes each; the messages of one request's
    event stream four times as many. `headers` go with each request to the endpoint's origin."""

    def __init__(self, url: str, limit: int, headers: Mapping[str, str], auth: httpx2.Auth | None) -> None:
        super().__init__(
            headers={**headers, "accept-encoding": "identity"},
            auth=auth,
            timeout=httpx2.Timeout(_CONNECT_S, read=_READ_S),
            event_hooks={"request": [self._note_request], "response": [self._bound_response]},
        )
        self._endpoint, self._limit, self._streams = httpx2.URL(url), limit, 0
        self.last_status: int | None = None
        """The status of the endpoint's last answer that was an error; None without one."""
        self.last_problem = ""
        """Why the last request that failed got no answer at all, as a sentence; "" without one."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Does the same as the client's `send`, but a failure is an answer with the status 502 or 504."""
        if request.method == "GET":
            self._streams += 1
            if self._streams > _MAX_STREAMS:
                raise httpx2.ConnectError("too many streams", request=request)
        try:
            return await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return self._failed(request, error, is_sent=False)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL) as error:
            return self._failed(request, error, is_sent=None)
        except Exception as error:
            if request.method != "POST":
                raise
            return self._failed(request, error, is_sent=None)

    def _failed(self, request: httpx2.Request, error: Exception, is_sent: bool | None) -> httpx2.Response:
        """Returns the answer that stands for a failed request. `is_sent`: False if it can't have reached the server."""
        note = _open_note()
        asked: httpx2.Request | None = getattr(error, "_request", None)
        at_endpoint = asked is None or asked.url == self._endpoint
        why = _sentence_of(error, self._endpoint if at_endpoint else None)
        if note is not None:
            if is_sent is False and at_endpoint:
                note.sent = False
            note.problem = note.problem or why
            note.is_answer = False
        body = {"jsonrpc": "2.0", "id": None, "error": {"code": _SERVER_ERROR, "message": "the request failed"}}
        self.last_problem = why
        return httpx2.Response(
            502, headers={"content-type": "application/json"}, content=json.dumps(body).encode(), request=request
        )

    async def _note_request(self, request: httpx2.Request) -> None:
        if (note := _open_note()) is not None and self._is_endpoint(request):
            note.sent, note.status = True, None

    def _is_endpoint(self, request: httpx2.Request) -> bool:
        url = request.url
        return (url.scheme, url.host, url.port) == (self._endpoint.scheme, self._endpoint.host, self._endpoint.port)

    async def _bound_response(self, response: httpx2.Response) -> None:
        request, note = response.request, _open_note()
        if response.status_code >= 400 and self._is_endpoint(request):
            self.last_status = response.status_code
            if note is not None:
                note.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            raise httpx2.DecodingError("a compressed answer was not asked for", request=request)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_stream = kind == "text/event-stream"
        if note is not None and (response.status_code != 200 or not (is_stream or kind == "application/json")):
            note.is_answer = response.status_code >= 400 and kind == "application/json"
        if note is not None and response.status_code < 300 and self._is_endpoint(request):
            note.taken = True
        is_open_end = is_stream and (
            request.method == "GET" or request.headers.get("mcp-method") == "subscriptions/listen"
        )
        if not is_open_end:
            whole = self._limit * (_EVENTS_FACTOR if is_stream else 1)
            response.stream = _BoundedStream(response.stream, whole, self._limit, current_note())  # type: ignore[arg-type]


def _open_note() -> CallNote | None:
    """Returns the note of the request that this code works for, until its server has begun to answer it."""
    note = current_note()
    return note if note is not None and not note.taken else None


def _sentence_of(error: Exception, url: httpx2.URL | None) -> str:
    """Returns why a request failed, in words of ours alone. `url`: the endpoint; None for an address that the server
    named."""
    if isinstance(error, Unavailable):
        return error.message
    if url is None:
        return f"A request to another address of the server failed: {type(error).__name__}."
    place = f"{url.host}:{url.port or (443 if url.scheme == 'https' else 80)}"
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case socket.gaierror():
                return f"The network does not know the name {url.host}."
            case ConnectionRefusedError():
                return f"Nothing listens at {place}."
            case ssl.SSLCertVerificationError():
                return f"The certificate of {place} is not accepted: {cause.verify_message}."
            case ssl.SSLError():
                return f"{place} does not speak TLS, which an https address needs."
            case TimeoutError() | httpx2.TimeoutException():
                return f"{place} did not answer in time."
        cause = cause.__cause__ or cause.__context__
    return f"The request to {place} failed: {type(error).__name__}."


class _BoundedStream(httpx2.AsyncByteStream):
    """A body of at most `whole` bytes, and at most `event` bytes between two empty lines."""

    def __init__(self, stream: httpx2.AsyncByteStream, whole: int, event: int, note: CallNote | None) -> None:
        self._stream, self._whole, self._event, self._note = stream, whole, event, note

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = since_event = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                end = max(chunk.rfind(b"\n\n"), chunk.rfind(b"\r\n\r\n"))
                since_event = since_event + len(chunk) if end < 0 else len(chunk) - end
                if size > self._whole or since_event > self._event:
                    if self._note is not None:
                        self._note.too_large = True
                    raise httpx2.StreamError("the answer is larger than the limit")
                yield chunk
        except httpx2.TransportError as error:  # the SDK expects this error where a body ends early
            raise httpx2.StreamError("the answer ended early") from error

    async def aclose(self) -> None:
        await self._stream.aclose()
