"""The backend of a world that a server serves: each call is a request over HTTP.

The server knows the caller by its token, so a caller that is given here changes nothing there. A call that was sent and
not answered is not sent again, but for an event, which has a key.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final, cast

import httpx

from demiurge.bootstrap.backend.calls import Frames, KeepCalls, ReadCalls, RunCalls
from demiurge.bootstrap.backend.error_codec import decode_error
from demiurge.bootstrap.backend.operations import Operation, client
from demiurge.bootstrap.backend.socket import LENGTH
from demiurge.errors import DemiurgeError, Unavailable, UsageError
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemEntropy, new_id
from demiurge.world.host import Accepted

__all__ = ["HttpBackend"]

CONNECT_S: Final = 10.0
TRIES: Final = 3


class HttpBackend:
    """The calls of one token on the server at `url`. Raises UsageError (`unauthorized`) for a token that is not good,
    UsageError (`bad_address`) for a `url` that is none, Unavailable when no server answers, or one whose certificate is
    not trusted (`untrusted_certificate`)."""

    def __init__(self, url: str, token: str) -> None:
        if not token:
            raise UsageError("No token is given: `demiurge tokens add` makes one.", code="unauthorized")
        base = _checked_address(url)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/cbor"}
        timeout = httpx.Timeout(None, connect=CONNECT_S)
        self._client = httpx.Client(base_url=base, headers=headers, timeout=timeout)
        self._streams = httpx.AsyncClient(base_url=base, headers=headers, timeout=timeout)
        self._url = base
        try:
            session = self._session()
        except BaseException:
            self._client.close()
            raise
        self.caller = Caller(session["actor"], session["tenant"], tuple(session["roles"]), "http")
        self.choice: tuple[str, str] = (session["provider"], session["model"])
        """The provider and the model that the server's world asks."""
        self.run: RunCalls = cast("RunCalls", _Run(client("run", self._call)))
        self.read: ReadCalls = client("read", self._call)
        self.keep: KeepCalls = client("keep", self._call)

    @property
    def owner(self) -> bool:
        return False

    @property
    def joined(self) -> bool:
        return True

    @property
    def read_only(self) -> str | None:
        return None

    def of(self, caller: Caller) -> HttpBackend:
        """Returns this backend. Raises UsageError for another caller: the token says who calls."""
        if caller.actor not in ("user", self.caller.actor):
            raise UsageError("Over HTTP the token says who calls: connect with another token.", code="token_decides")
        return self

    async def serve(self) -> None:
        """Does nothing: the server lets others in."""

    async def close(self) -> None:
        self._client.close()
        await self._streams.aclose()

    def _session(self) -> dict[str, Any]:
        try:
            answer = self._client.get("/api/session")
            found: Any = answer.json() if answer.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise self._away(error) from error
        session: dict[str, Any] = found if isinstance(found, dict) else {}
        if answer.status_code != 200 or "actor" not in session:
            message = f"{self._url} is not the server of a world: it answered {answer.status_code}."
            raise UsageError(str(session.get("message", message)), code=str(session.get("code", "http")))
        return session

    def _call(self, operation: Operation, *args: Any) -> Any:
        if operation.kind == "stream":
            return self._stream(operation, args)
        if operation.kind == "now":
            return self._ask(operation, args)
        return asyncio.to_thread(self._ask, operation, args)

    def _ask(self, operation: Operation, args: Sequence[Any]) -> Any:
        try:
            answer = self._client.post(_path(operation), content=_body(operation, args))
        except httpx.HTTPError as error:
            raise self._away(error) from error
        found = _answer(answer, answer.content)
        if "error" in found:
            raise decode_error(found["error"])
        return operation.load_result(found["result"])

    async def _stream(self, operation: Operation, args: Sequence[Any]) -> Frames:
        try:
            request = self._streams.stream("POST", _path(operation), content=_body(operation, args))
            async with request as answer:
                if answer.status_code != 200:
                    raise decode_error(_answer(answer, await answer.aread())["error"])
                buffer = b""
                async for data in answer.aiter_bytes():
                    buffer += data
                    while len(buffer) >= LENGTH.size:
                        end = LENGTH.size + LENGTH.unpack_from(buffer)[0]
                        if len(buffer) < end:
                            break
                        found, buffer = cbor.decode(buffer[LENGTH.size : end]), buffer[end:]
                        if "error" in found:
                            raise decode_error(found["error"])
                        if "frame" not in found:
                            return
                        yield found["frame"]
        except httpx.HTTPError as error:
            raise self._away(error) from error
        raise Unavailable(f"The server at {self._url} ended the connection.", code="server_gone")

    def _away(self, error: Exception) -> DemiurgeError:
        return _away(self._url, error)


class _Run:
    """The calls of the group `run`; an event gets a key, so that it can be sent again when its answer was lost."""

    def __init__(self, calls: RunCalls) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._calls, name)

    async def submit(self, schema: str, value: Any, key: str | None, idempotency_key: str | None) -> Accepted:
        chosen = idempotency_key if idempotency_key is not None else new_id("event", SystemEntropy())
        for left in reversed(range(TRIES)):
            try:
                return await self._calls.submit(schema, value, key, chosen)
            except Unavailable as error:
                if error.code != "server_gone" or not left:
                    raise
        raise AssertionError


def _checked_address(url: str) -> str:
    """Returns the address of a server without a slash at its end. Raises UsageError."""
    try:
        address = httpx.URL(url)
        is_address = address.scheme in ("http", "https") and address.host and (address.port or 80) < 2**16
    except (httpx.InvalidURL, ValueError):
        is_address = False
    if not is_address:
        why = f"{url!r} is not the address of a server; `demiurge serve` prints one, such as http://127.0.0.1:7777."
        raise UsageError(why, code="bad_address")
    return url.rstrip("/")


def _away(url: str, error: BaseException) -> Unavailable:
    """Returns the error for a server that cannot be reached."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            how = "If you trust its authority, name the authority's certificate in SSL_CERT_FILE."
            message = f"The certificate of {url} is not trusted: {cause.verify_message.rstrip('.')}. {how}"
            return Unavailable(message, code="untrusted_certificate")
    hint = "is it running?"
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        hint = "does it speak http in place of https?"
    elif isinstance(error, httpx.RemoteProtocolError | httpx.ReadError) and url.startswith("http:"):
        hint = "does it speak https in place of http?"
    return Unavailable(f"The server at {url} does not answer ({type(error).__name__}); {hint}", code="server_gone")


def _path(operation: Operation) -> str:
    return f"/api/calls/{operation.name}"


def _body(operation: Operation, args: Sequence[Any]) -> bytes:
    return cbor.encode(operation.dump_arguments(args))


def _answer(answer: httpx.Response, content: bytes) -> dict[str, Any]:
    """Returns `{result}` or `{error}`. A response that did not come from the world is turned into an `{error}` with its
    code."""
    if answer.headers.get("content-type", "").startswith("application/cbor"):
        found: dict[str, Any] = cbor.decode(content)
        return found
    try:
        told = answer.json()
    except ValueError:
        told = {}
    message = str(told.get("message", f"The server answered {answer.status_code}."))
    if answer.status_code >= 500 and "code" not in told:
        return {"error": {"kind": "Unavailable", "code": "server_gone", "message": f"{message} Does it stop?"}}
    return {"error": {"kind": "UsageError", "code": str(told.get("code", "http")), "message": message}}
