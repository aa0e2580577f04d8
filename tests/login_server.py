"""A small authorization server and the resource that it protects, on loopback, in a thread; it keeps the rules of OAuth
2.1, or breaks them as a test wants."""

from __future__ import annotations

import json
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

__all__ = ["LoginServer", "Seen", "browse", "serving_logins"]

Answer = tuple[int, dict[str, str], Any]


@dataclass(frozen=True)
class Seen:
    """A request that came in. `form`: the fields of its query or its body; header names in lower case."""

    method: str
    path: str
    form: dict[str, Any]
    headers: dict[str, str]


@dataclass
class LoginServer:
    """Tokens are `ACCESS-n` and `REFRESH-n` with the canary before them; a refresh token is good for one renewal.
    `answers` replaces the answer at a path: a JSON object, bytes, or a status with headers; `server_metadata`,
    `resource_metadata` and `redirect` are merged into what is sent there (None removes); `token` into token answers.
    """

    url: str = ""
    canary: str = "canary-"
    lifetime_s: int | None = 3600
    scopes: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    server_metadata: dict[str, Any] = field(default_factory=dict)
    resource_metadata: dict[str, Any] = field(default_factory=dict)
    redirect: dict[str, Any] = field(default_factory=dict)
    token: dict[str, Any] = field(default_factory=dict)
    challenge: str | None = None
    seen: list[Seen] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    access_tokens: set[str] = field(default_factory=set)
    refresh_tokens: set[str] = field(default_factory=set)
    issued: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def resource(self) -> str:
        return f"{self.url}/mcp"

    def asked(self, path: str) -> list[Seen]:
        """Returns the requests to a path, in order."""
        return [seen for seen in self.seen if seen.path == path]

    def secrets(self) -> list[str]:
        """Returns every token that may have been issued, and the codes."""
        numbers = range(1, self.issued + 1)
        tokens = [f"{self.canary}{kind}-{n}" for kind in ("ACCESS", "REFRESH") for n in numbers]
        return [*tokens, *self.codes, f"{self.canary}SECRET"]

    def metadata(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
        }
        return merged(made, self.server_metadata)

    def answer(self, seen: Seen) -> Answer:
        """Returns status, headers and body for a request."""
        given = self.answers.get(seen.path)
        if given is not None:
            made = given(seen) if callable(given) else given
            return (made[0], made[1], made[2]) if isinstance(made, tuple) else (200, {}, made)
        routes: dict[str, Callable[[Seen], Answer]] = {
            "/mcp": self._resource,
            "/.well-known/oauth-protected-resource/mcp": lambda _: (
                200,
                {},
                merged(self._about(), self.resource_metadata),
            ),
            "/.well-known/oauth-authorization-server": lambda _: (200, {}, self.metadata()),
            "/authorize": self._authorize,
            "/token": self._token,
            "/register": self._register,
            "/revoke": self._revoke,
        }
        route = routes.get(seen.path)
        return (404, {}, {}) if route is None else route(seen)

    def _about(self) -> dict[str, Any]:
        return {"resource": self.resource, "authorization_servers": [self.url]}

    def _resource(self, seen: Seen) -> Answer:
        given = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if given in self.access_tokens:
            return 200, {}, {"ok": True}
        challenge = f'Bearer resource_metadata="{self.url}/.well-known/oauth-protected-resource/mcp"'
        return 401, {"www-authenticate": self.challenge if self.challenge is not None else challenge}, {}

    def _authorize(self, seen: Seen) -> Answer:
        assert seen.form["response_type"] == "code"
        assert seen.form["code_challenge_method"] == "S256"
        with self.lock:
            code = f"{self.canary}CODE-{len(self.codes) + 1}"
            self.codes[code] = dict(seen.form)
        query = merged({"code": code, "state": seen.form["state"], "iss": self.url}, self.redirect)
        return 302, {"location": f"{seen.form['redirect_uri']}?{urlencode(query)}"}, {}

    def _token(self, seen: Seen) -> Answer:
        form = seen.form
        with self.lock:
            if form["grant_type"] == "authorization_code":
                asked = self.codes[form["code"]]
                digest = sha256(form["code_verifier"].encode()).digest()
                assert urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
                assert (form["redirect_uri"], form["resource"]) == (asked["redirect_uri"], asked["resource"])
                granted = self.scopes or asked.get("scope", "")
            else:
                if form["refresh_token"] not in self.refresh_tokens:
                    return 400, {}, {"error": "invalid_grant", "error_description": f"no {form['refresh_token']}"}
                self.refresh_tokens.discard(form["refresh_token"])
                self.access_tokens.clear()
                granted = self.scopes
            self.issued += 1
            access, refresh = f"{self.canary}ACCESS-{self.issued}", f"{self.canary}REFRESH-{self.issued}"
            self.access_tokens.add(access)
            self.refresh_tokens.add(refresh)
        made = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "expires_in": self.lifetime_s}
        return 200, {}, merged(merged(made, {"scope": granted or None}), self.token)

    def _register(self, seen: Seen) -> Answer:
        method = seen.form["token_endpoint_auth_method"]
        secret = {} if method == "none" else {"client_secret": f"{self.canary}SECRET"}
        return 201, {}, {**seen.form, "client_id": "registered-1", **secret}

    def _revoke(self, seen: Seen) -> Answer:
        with self.lock:
            for tokens in (self.access_tokens, self.refresh_tokens):
                tokens.discard(seen.form["token"])
        return 200, {}, {}


def merged(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns `document` with `changes`; None takes a field out."""
    return {name: value for name, value in {**document, **changes}.items() if value is not None}


def basic(seen: Seen) -> str:
    """Returns user and password of a request's Basic header."""
    return b64decode(seen.headers["authorization"].removeprefix("Basic ")).decode()


async def browse(_host: str, url: str) -> None:
    """Does what a browser does with the link of a login, of a person who agrees to everything."""
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as client:
        await client.get(url)


@contextmanager
def serving_logins(**options: Any) -> Iterator[LoginServer]:
    """Yields a running server that nobody else knows."""
    made = LoginServer(**options)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            split = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            form = {name: values[-1] for name, values in parse_qs(split.query).items()}
            if headers.get("content-type") == "application/json":
                form |= json.loads(body)
            elif body:
                form |= {name: values[-1] for name, values in parse_qs(body.decode()).items()}
            seen = Seen(self.command, split.path, form, headers)
            made.seen.append(seen)
            status, more, content = made.answer(seen)
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", "content-length": str(len(data)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
