"""A whole login against a server that keeps the rules, and against servers that lie."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.canaries.search import find_values
from tests.login_server import LoginServer, basic, browse, serving_logins

from demiurge.capabilities.http.guarded import GuardedAnswer, GuardedHttp, GuardedRequest
from demiurge.capabilities.http.urls import parse_url
from demiurge.capabilities.oauth.errors import LoginFailed
from demiurge.capabilities.oauth.flow import LoginRequest, LoginResult, ShowLink, log_in
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import FixedClock, SystemEntropy

NOW_MS = 1_000_000_000_000


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with serving_logins() as running:
        yield running


async def login(server: LoginServer, show: ShowLink = browse, url: str = "", **wanted: Any) -> LoginResult:
    request = LoginRequest(url or server.resource, **wanted)
    return await log_in(GuardedHttp(), request, show, FixedClock(NOW_MS * 1_000_000), SystemEntropy(), timeout_s=20)


async def refused(server: LoginServer, show: ShowLink = browse, **wanted: Any) -> LoginFailed:
    """Returns the error of a login. Neither it nor a variable of the functions that it passed names a secret."""
    with pytest.raises(LoginFailed) as told:
        await login(server, show, **wanted)
    assert find_values(server.secrets(), *_shown_variables(told.value)) == []
    assert find_values(server.secrets(), str(told.value), repr(told.value), json.dumps(told.value.details)) == []
    return told.value


def _shown_variables(error: BaseException) -> Iterator[str]:
    """Yields the variables of Demiurge's OAuth code in a traceback, as a crash report shows them."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if "demiurge/capabilities/oauth" in frame.f_code.co_filename:
            yield from (f"{name} = {value!r}" for name, value in frame.f_locals.items() if name != "query")


async def test_a_login_yields_tokens_for_the_resource(server: LoginServer) -> None:
    links: list[tuple[str, str]] = []

    async def show(host: str, url: str) -> None:
        links.append((host, url))
        await browse(host, url)

    made = await login(server, show, scopes=("read", "write"))
    assert made.credentials.access_token.reveal() == "canary-ACCESS-1"
    assert made.credentials.refresh_token is not None
    assert made.credentials.expires_at_ms == NOW_MS + 3600_000
    assert (made.login.resource, made.login.issuer, made.login.scopes) == (
        server.resource,
        server.url,
        ("read", "write"),
    )
    assert (made.login.client.id, made.login.client_id, made.login.client.secret) == ("registered-1", None, None)
    [(host, url)] = links
    assert (host, url.startswith(f"{server.url}/authorize?")) == ("127.0.0.1", True)
    [asked] = server.asked("/authorize")
    assert asked.form["resource"] == server.resource
    assert asked.form["scope"] == "read write"
    assert asked.form["redirect_uri"].startswith("http://127.0.0.1:")
    [registered] = server.asked("/register")
    assert registered.form["redirect_uris"] == [asked.form["redirect_uri"]]
    assert (registered.form["application_type"], registered.form["token_endpoint_auth_method"]) == ("native", "none")
    assert find_values(server.secrets(), repr(made), url) == []


async def test_scopes_are_those_of_the_user_else_of_the_challenge_else_of_the_resource(server: LoginServer) -> None:
    server.resource_metadata = {"scopes_supported": ["all"]}
    server.server_metadata = {"scopes_supported": ["all", "offline_access"]}
    await login(server)
    server.challenge = 'Basic realm="x", Bearer error="invalid_token", scope="read  list", error_description="scope=no"'
    await login(server)
    await login(server, scopes=("mine",))
    server.resource_metadata, server.challenge = {}, "Bearer"
    await login(server)
    assert [asked.form.get("scope") for asked in server.asked("/authorize")] == [
        "all offline_access",
        "read list offline_access",
        "mine offline_access",
        None,
    ]


async def test_the_granted_scopes_are_those_that_the_server_names(server: LoginServer) -> None:
    server.scopes = "read"
    assert (await login(server, scopes=("read", "write"))).login.scopes == ("read",)


@pytest.mark.parametrize(
    ("client_id", "takes_documents", "used", "registers"),
    [
        ("https://client.example/demiurge.json", True, "https://client.example/demiurge.json", 0),
        ("https://client.example/demiurge.json", False, "registered-1", 1),
        ("given-id", True, "given-id", 0),
        (None, True, "registered-1", 1),
    ],
)
async def test_a_client_registers_itself_only_if_there_is_no_other_way(
    server: LoginServer, client_id: str | None, takes_documents: bool, used: str, registers: int
) -> None:
    server.server_metadata = {"client_id_metadata_document_supported": takes_documents}
    made = await login(server, client_id=client_id)
    assert (made.login.client.id, len(server.asked("/register"))) == (used, registers)
    assert server.asked("/token")[-1].form["client_id"] == used


@pytest.mark.parametrize(
    ("methods", "by_header"), [(["client_secret_basic"], True), (["client_secret_post"], False), (None, True)]
)
@pytest.mark.parametrize("given", [True, False])
async def test_a_client_with_a_secret_authenticates_as_the_server_wants(
    server: LoginServer, methods: list[str] | None, by_header: bool, given: bool
) -> None:
    server.server_metadata = {"token_endpoint_auth_methods_supported": methods}
    if given:
        await login(server, client_id="given id", client_secret=Secret("canary-SECRET"))
    elif methods is not None:
        await login(server)
    else:
        server.answers["/register"] = lambda seen: {
            **seen.form,
            "client_id": "registered-1",
            "client_secret": "canary-SECRET",
            "token_endpoint_auth_method": "client_secret_basic",
        }
        await login(server)
    [asked] = server.asked("/token")
    name = "given%20id" if given else "registered-1"
    if by_header:
        assert basic(asked) == f"{name}:canary-SECRET"
        assert "client_secret" not in asked.form
    else:
        assert asked.form["client_secret"] == "canary-SECRET"
        assert "authorization" not in asked.headers


async def test_an_address_without_metadata_of_its_own_is_its_own_authorization_server(server: LoginServer) -> None:
    server.answers["/.well-known/oauth-protected-resource/mcp"] = (404, {}, b"")
    server.challenge = "Bearer"
    assert (await login(server)).login.resource == server.resource


async def test_metadata_is_looked_for_in_the_order_of_the_protocol(server: LoginServer) -> None:
    issuer = f"{server.url}/tenant"
    server.resource_metadata = {"authorization_servers": [issuer]}
    server.answers["/tenant/.well-known/openid-configuration"] = lambda _: {**server.metadata(), "issuer": issuer}
    server.redirect = {"iss": issuer}
    server.challenge = ""
    await login(server)
    paths = [seen.path for seen in server.seen]
    assert [path for path in paths if "well-known" in path] == [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    ("lie", "code", "said"),
    [
        ({"server_metadata": {"code_challenge_methods_supported": None}}, "pkce_missing", "PKCE"),
        ({"server_metadata": {"code_challenge_methods_supported": ["plain"]}}, "pkce_missing", "PKCE"),
        ({"server_metadata": {"issuer": "https://other.example"}}, "metadata_invalid", "another issuer"),
        ({"server_metadata": {"token_endpoint": "http://other.example/token"}}, "metadata_invalid", "no https"),
        ({"server_metadata": {"authorization_endpoint": "file:///etc/passwd"}}, "metadata_invalid", "no https"),
        ({"server_metadata": {"authorization_endpoint": "https://a@b.example/"}}, "metadata_invalid", "no https"),
        ({"server_metadata": {"authorization_endpoint": "https://b.example/\ud800"}}, "metadata_invalid", "no https"),
        ({"resource_metadata": {"resource": "https://b.example/\udfff"}}, "metadata_invalid", "no https"),
        ({"server_metadata": {"response_types_supported": ["token"]}}, "metadata_invalid", "no authorization codes"),
        ({"resource_metadata": {"resource": "https://other.example/mcp"}}, "metadata_invalid", "another resource"),
        ({"resource_metadata": {"authorization_servers": []}}, "metadata_invalid", "no authorization server"),
        ({"resource_metadata": {"authorization_servers": ["javascript:alert(1)"]}}, "metadata_invalid", "no https"),
        ({"server_metadata": {"registration_endpoint": None}}, "client_id_missing", "--client-id ID"),
        (
            {
                "server_metadata": {
                    "registration_endpoint": None,
                    "client_id_metadata_document_supported": True,
                }
            },
            "client_id_missing",
            "--client-id https://",
        ),
        ({"redirect": {"iss": "https://other.example"}}, "redirect_invalid", "another authorization server"),
        ({"redirect": {"iss": None}}, "redirect_invalid", "names itself"),
        ({"redirect": {"code": None}}, "redirect_invalid", "has no code"),
        ({"redirect": {"code": None, "error": "access_denied"}}, "login_refused", "access_denied"),
        ({"redirect": {"code": None, "error": "\x1b[2Jno"}}, "login_refused", "an unknown error"),
    ],
)
async def test_a_lying_server_gets_no_code(server: LoginServer, lie: dict[str, Any], code: str, said: str) -> None:
    for name, value in lie.items():
        setattr(server, name, value)
    error = await refused(server)
    assert (error.code, said in error.message) == (code, True), error
    assert server.asked("/token") == []
    assert "\x1b" not in error.message


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ({"token_type": "mac"}, "no bearer token"),
        ({"token_type": None}, "no bearer token"),
        ({"access_token": None}, "without a usable token"),
        ({"access_token": "two\nlines"}, "without a usable token"),
        ({"access_token": ["canary-ACCESS-1"]}, "without a usable token"),
        ({"refresh_token": {"a": "canary-REFRESH-1"}}, "without a usable token"),
        ({"access_token": "canary-ACCESS-1\u00f6"}, "characters that no token has"),
        ({"refresh_token": "canary-REFRESH-1\ud800"}, "characters that no token has"),
    ],
)
async def test_an_answer_without_a_bearer_token_is_refused(server: LoginServer, token: Any, said: str) -> None:
    server.token = token
    error = await refused(server)
    assert (error.code, said in error.message) == ("token_invalid", True)


@pytest.mark.parametrize(
    ("seconds", "expires"),
    [("60", 60), (60.0, 60), (None, None), ("soon", None), (True, None), (-5, 0), (10**30, 10**30)],
)
async def test_a_lifetime_is_read_as_servers_write_it(server: LoginServer, seconds: Any, expires: int | None) -> None:
    server.lifetime_s = seconds
    ends = (await login(server)).credentials.expires_at_ms
    assert ends == (None if expires is None else NOW_MS + min(expires, 10 * 365 * 24 * 3600) * 1000)


@pytest.mark.parametrize("path", ["/token", "/register"])
async def test_a_redirect_of_an_endpoint_is_not_followed(server: LoginServer, path: str) -> None:
    with serving_logins() as other:
        server.answers[path] = (307, {"location": f"{other.url}{path}"}, b"")
        error = await refused(server)
        assert (error.code, other.seen) == ("oauth_unavailable", [])
    assert "redirect" in error.message


async def test_metadata_may_move_within_its_origin_and_not_to_another(server: LoginServer) -> None:
    place = "/.well-known/oauth-authorization-server"
    server.answers["/moved"] = lambda _: server.metadata()
    server.answers[place] = (301, {"location": "/moved"}, b"")
    await login(server)
    with serving_logins() as other:
        server.answers[place] = (301, {"location": f"{other.url}{place}"}, b"")
        assert (await refused(server)).code == "metadata_invalid"
        assert other.seen == []


@pytest.mark.parametrize(
    "path",
    ["/token", "/register", "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"],
)
async def test_a_huge_answer_is_not_read(server: LoginServer, path: str) -> None:
    server.answers[path] = (200, {}, b'{"a": "' + b"x" * 100_000 + b'"}')
    error = await refused(server)
    assert (error.code, "more than 64 KiB" in error.message) == ("oauth_unavailable", True)


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"[" * 50_000, b'{"access_token": "canary-ACCESS-1"'])
async def test_an_answer_that_is_no_json_object_is_refused(server: LoginServer, body: bytes) -> None:
    server.answers["/token"] = (200, {}, body)
    assert (await refused(server)).code == "token_invalid"


async def test_a_refused_token_is_said_without_the_servers_words(server: LoginServer) -> None:
    server.answers["/token"] = lambda seen: (
        400,
        {},
        {"error": "invalid_grant", "error_description": seen.form["code"]},
    )
    error = await refused(server)
    assert (error.code, "invalid_grant" in error.message) == ("token_refused", True)


@pytest.mark.parametrize(
    ("registered", "said"),
    [
        ({"client_id": None}, "cannot use"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "cannot use"),
        ({"token_endpoint_auth_method": "client_secret_post"}, "cannot use"),
        ({"token_endpoint_auth_method": "client_secret_post", "client_secret": "canary-SECRET\ud800"}, "cannot use"),
    ],
)
async def test_a_registration_that_cannot_be_used_is_refused(
    server: LoginServer, registered: dict[str, Any], said: str
) -> None:
    server.answers["/register"] = lambda _: {"client_id": "a", **registered}
    error = await refused(server)
    assert (error.code, said in error.message) == ("registration_failed", True)


async def test_a_server_that_registers_nobody_is_said(server: LoginServer) -> None:
    server.answers["/register"] = lambda _: (403, {}, {"error": "access_denied"})
    error = await refused(server)
    assert (error.code, "--client-id" in error.message) == ("registration_failed", True)


@pytest.mark.parametrize(
    "url",
    ["http://tracker.example/mcp", "ftp://tracker.example", "https://a:b@tracker.example", "tracker", "https://a#b"],
)
async def test_an_address_that_is_not_https_is_refused(server: LoginServer, url: str) -> None:
    assert (await refused(server, url=url)).code == "address_invalid"


async def test_a_public_address_leads_to_no_private_one(server: LoginServer) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["10.0.0.7"]

    with pytest.raises(LoginFailed, match="--internal-network"):
        await log_in(
            GuardedHttp(resolve=resolve),
            LoginRequest("https://tracker.example/mcp"),
            browse,
            FixedClock(0),
            SystemEntropy(),
        )


@pytest.mark.parametrize("leads_to", [["127.0.0.1"], ["10.0.0.7"], ["::1"], []])
async def test_a_browser_is_not_sent_to_a_name_of_a_private_address(server: LoginServer, leads_to: list[str]) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        if not leads_to:
            raise OSError
        return leads_to

    links: list[str] = []

    async def show(_host: str, link: str) -> None:
        links.append(link)

    url = parse_url("https://tracker.example/mcp")
    document = {
        "resource": str(url),
        "authorization_servers": ["https://as.example"],
        "issuer": "https://as.example",
        "authorization_endpoint": "https://router.example/reboot",
        "token_endpoint": "https://as.example/token",
        "code_challenge_methods_supported": ["S256"],
    }

    class Web(GuardedHttp):
        async def send(self, grant: Any, request: GuardedRequest, **_: Any) -> GuardedAnswer:
            return GuardedAnswer(200, request.url, {}, json.dumps(document).encode())

    wanted = LoginRequest(str(url), client_id="given")
    with pytest.raises(LoginFailed, match=r"^router\.example (leads to an address outside|has no address)") as told:
        await log_in(Web(resolve=resolve), wanted, show, FixedClock(0), SystemEntropy(), timeout_s=0.05)
    assert (told.value.code, links) == ("oauth_unavailable", [])


@pytest.mark.parametrize(
    "host",
    ["http://127.0.0.1:9", "http://localhost", "https://a.localhost:8443", "https://10.0.0.7", "https://[::1]"],
)
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "issuer", "resource_metadata"])
async def test_the_metadata_of_a_public_address_names_no_private_one(host: str, name: str) -> None:
    url = parse_url("https://tracker.example/mcp")
    document = {
        "issuer": "https://as.example",
        "authorization_endpoint": "https://as.example/authorize",
        "token_endpoint": "https://as.example/token",
        "code_challenge_methods_supported": ["S256"],
    }
    asked: list[str] = []

    class Web(GuardedHttp):
        async def send(self, grant: Any, request: GuardedRequest, **_: Any) -> GuardedAnswer:
            asked.append(request.url.host)
            path = request.url.path
            if "protected-resource" in path:
                servers = [host if name == "issuer" else "https://as.example"]
                found: Any = {"resource": str(url), "authorization_servers": servers}
            else:
                found = {**document, name: f"{host}/x"}
            headers = (
                {"www-authenticate": f'Bearer resource_metadata="{host}/x"'} if name == "resource_metadata" else {}
            )
            status = 401 if path == "/mcp" and headers else 200
            return GuardedAnswer(status, request.url, headers, json.dumps(found).encode())

    links: list[str] = []

    async def show(_host: str, link: str) -> None:
        links.append(link)

    with pytest.raises(LoginFailed) as told:
        await log_in(Web(), LoginRequest(str(url)), show, FixedClock(0), SystemEntropy(), timeout_s=0.05)
    assert told.value.code == "metadata_invalid"
    assert links == []
    assert set(asked) <= {"tracker.example", "as.example"}


async def test_an_unprotected_address_is_said(server: LoginServer) -> None:
    server.answers["/mcp"] = (200, {}, b"{}")
    server.answers["/.well-known/oauth-protected-resource/mcp"] = (404, {}, b"")
    server.answers["/.well-known/oauth-authorization-server"] = (404, {}, b"")
    error = await refused(server)
    assert (error.code, "connections add" in error.message) == ("not_protected", True)


async def test_a_login_that_nobody_finishes_ends(server: LoginServer) -> None:
    async def ignore(_host: str, _url: str) -> None:
        pass

    request = LoginRequest(server.resource)
    with pytest.raises(LoginFailed) as told:
        await log_in(GuardedHttp(), request, ignore, FixedClock(0), SystemEntropy(), timeout_s=0.05)
    assert told.value.code == "login_timeout"


@pytest.mark.parametrize("state", ["another", None])
async def test_a_redirect_with_another_state_decides_nothing(server: LoginServer, state: str | None) -> None:
    server.redirect = {"state": state}
    request = LoginRequest(server.resource)
    with pytest.raises(LoginFailed) as told:
        await log_in(GuardedHttp(), request, browse, FixedClock(0), SystemEntropy(), timeout_s=0.05)
    assert (told.value.code, server.asked("/token")) == ("login_timeout", [])


async def test_a_page_that_sends_the_browser_to_the_redirect_address_first_spoils_no_login(server: LoginServer) -> None:
    answers: list[httpx.Response] = []

    async def hurried(host: str, url: str) -> None:
        redirect = httpx.URL(httpx.URL(url).params["redirect_uri"])
        async with httpx.AsyncClient(trust_env=False) as client:
            queries = ({"code": "theirs", "state": "guessed"}, {"error": "access_denied"}, {"state": "\u00e9"})
            answers.extend([await client.get(redirect, params=query) for query in queries])
        await browse(host, url)

    await login(server, hurried)
    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert all("Not this login" in answer.text and "theirs" not in answer.text for answer in answers)
    [asked] = server.asked("/token")
    assert asked.form["code"] == "canary-CODE-1"


async def test_the_host_that_gets_the_answer_is_shown_where_the_login_is_at_another_one(server: LoginServer) -> None:
    port = parse_url(server.url).port
    server.server_metadata = {"authorization_endpoint": f"http://localhost:{port}/authorize"}
    shown: list[tuple[str, str]] = []

    async def show(host: str, url: str) -> None:
        shown.append((host, httpx.URL(url).host))
        await browse(host, url)

    await login(server, show)
    assert shown == [("127.0.0.1", "localhost")]


async def test_a_connection_on_which_a_browser_asks_nothing_ends_with_the_login(server: LoginServer) -> None:
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def preconnecting(host: str, url: str) -> None:
        redirect = httpx.URL(httpx.URL(url).params["redirect_uri"])
        held.append(await asyncio.open_connection("127.0.0.1", redirect.port))
        await browse(host, url)

    before = asyncio.all_tasks()
    await login(server, preconnecting)
    assert asyncio.all_tasks() == before
    [(reader, writer)] = held
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_only_the_exact_redirect_address_is_answered(server: LoginServer) -> None:
    statuses: list[int] = []

    async def stray(host: str, url: str) -> None:
        redirect = httpx.URL(httpx.URL(url).params["redirect_uri"])
        async with httpx.AsyncClient(trust_env=False) as client:
            for address, named in (
                (redirect.copy_with(path="/"), redirect.netloc.decode()),
                (redirect.copy_with(path="/oauth/callback/x"), redirect.netloc.decode()),
                (redirect, f"attacker.example:{redirect.port}"),
            ):
                query = httpx.QueryParams({"code": "c", "state": "s"})
                answer = await client.get(address, params=query, headers={"host": named})
                statuses.append(answer.status_code)
            statuses.append((await client.post(redirect)).status_code)
            assert len((await client.get(redirect.copy_with(path="/favicon.ico"))).text) == 0
        await browse(host, url)

    await login(server, stray)
    assert statuses == [404, 404, 404, 405]


async def test_the_page_of_the_redirect_repeats_nothing_and_runs_no_script(server: LoginServer) -> None:
    pages: list[httpx.Response] = []

    async def show(_host: str, url: str) -> None:
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as client:
            pages.append(await client.get(f"{url}&x=%3Cscript%3E"))

    await login(server, show)
    [page] = pages
    assert page.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert find_values(server.secrets(), page.text) == []
    assert "script" not in page.text
