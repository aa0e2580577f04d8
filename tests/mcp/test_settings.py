"""Settings of servers: what they accept, that they come back from JSON, and that a file's credentials are refused."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.mcp import Limits, SamplingGrant, ServerSettings, read_mcp_json
from demiurge.mcp.settings import looks_like_credential, parse_reference, refuse_credentials
from demiurge.tools.capabilities import SecretName

STDIO = ServerSettings(
    "git",
    command=("mcp-server-git", "--repository", "/tmp/r"),
    env={"LEVEL": "info", "TOKEN": SecretName("git/token", 2), "HOME": "${HOME:-/tmp}"},
    cwd="/tmp",
    limits=Limits(timeout_s=5, per_minute=10),
)
HTTP = ServerSettings(
    "notes",
    transport="http",
    url="https://notes.example/mcp",
    headers={"Authorization": "Bearer ${secret:notes}"},
    connection_id="notes",
)


@pytest.mark.parametrize("settings", [STDIO, HTTP])
def test_settings_come_back_from_json(settings: ServerSettings) -> None:
    text = json.dumps(settings.to_json())
    assert ServerSettings.of_json(json.loads(text)) == settings


def test_json_leaves_defaults_out() -> None:
    assert ServerSettings("a", command=("b",)).to_json() == {"name": "a", "transport": "stdio", "command": ["b"]}
    assert STDIO.to_json()["limits"] == {"timeout_s": 5, "per_minute": 10}
    assert STDIO.to_json()["env"]["TOKEN"] == {"secret": "git/token@2"}


def test_the_secrets_of_settings_are_known_by_name() -> None:
    assert (STDIO.secrets, HTTP.secrets) == ((SecretName("git/token", 2),), (SecretName("notes", 1),))
    assert (STDIO.target, HTTP.target) == ("mcp-server-git --repository /tmp/r", "https://notes.example/mcp")


SECRETS = "A secret stands in 'env' or 'headers' only: others can see a command and a URL."
REFERENCES = "A reference is ${VARIABLE}, ${VARIABLE:-default}, ${secret:ALIAS} or ${secret:ALIAS@VERSION}."
COMMAND = "command: must be a list of texts: the program and its arguments"
VALUE = 'must be text or {"secret": "alias@version"}'


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"name": "a b"},
            "name: A server's name has 1 to 32 characters: letters, digits, '-' and single '_', the first a letter or "
            "digit, the last not '_'.",
        ),
        ({"transport": "sse"}, "transport: must be 'stdio' or 'http'"),
        ({"command": ()}, "command: a server with the transport stdio needs a program"),
        ({"command": ("", "a")}, "command: a server with the transport stdio needs a program"),
        ({"command": "git log"}, COMMAND),
        ({"command": ("git\0",)}, COMMAND),
        ({"command": ("git\n",)}, COMMAND),
        ({"command": ("git\r",)}, COMMAND),
        ({"command": (3,)}, COMMAND),
        ({"env": {"A B": "c"}}, "env: 'A B' is no name here"),
        ({"env": {3: "c"}}, "env: 3 is no name here"),
        ({"env": ["A"]}, "env: must be a mapping from names to values"),
        ({"env": {"A": 3}}, "env.A: must be text or a SecretName"),
        ({"env": {"A": "a\0"}}, "env.A: must be text or a SecretName"),
        ({"env": {"A": "${input:x}"}}, REFERENCES),
        ({"command": ("x", "${}")}, REFERENCES),
        ({"command": ("x", "--token=${secret:a}")}, SECRETS),
        ({"cwd": "/${secret:a}"}, SECRETS),
        ({"cwd": ""}, "cwd: must be text of one line"),
        ({"cwd": "a\nb"}, "cwd: must be text of one line"),
        ({"url": 3}, "url: must be text of one line"),
        ({"url": "https://a.example"}, "url: does not go with the transport stdio"),
        ({"headers": {"A": "b"}}, "headers: does not go with the transport stdio"),
        ({"connection_id": "a"}, "connection_id: does not go with the transport stdio"),
        ({"connection_id": ""}, "connection_id: must be text of one line"),
        ({"limits": {}}, "limits: must be Limits"),
        ({"sampling": {"tokens": 1}}, "sampling: must be a SamplingGrant or None"),
        ({"roots": 1}, "roots: must be true or false"),
    ],
)
def test_settings_of_another_form_are_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ServerSettings(**{"name": "a", "command": ("b",), **change})
    assert str(caught.value) == problem


BEGINS = "url: a server with the transport http needs a URL that begins with http:// or https://"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"url": None}, BEGINS),
        ({"url": "ftp://a.example"}, BEGINS),
        ({"url": "https://"}, BEGINS),
        ({"url": "http://[a"}, "url: must be a URL"),
        (
            {"url": "https://user:word@a.example"},
            "url: A URL can't hold a user or a password. Use a header with a secret.",
        ),
        ({"url": "https://a.example/${secret:a}"}, SECRETS),
        ({"headers": {"A": "b\r\nC: d"}}, "headers.A: must be text of one line"),
        ({"headers": {"A:": "b"}}, "headers: 'A:' is no name here"),
        ({"headers": []}, "headers: must be a mapping from names to values"),
        ({"headers": {"A": "${}"}}, REFERENCES),
        ({"command": ("b",)}, "command: does not go with the transport http"),
        ({"env": {"A": "b"}}, "env: does not go with the transport http"),
        ({"cwd": "/tmp"}, "cwd: does not go with the transport http"),
    ],
)
def test_settings_of_a_server_over_http_of_another_form_are_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ServerSettings(**{"name": "a", "transport": "http", "url": "https://a.example", **change})
    assert str(caught.value) == problem


def test_a_server_over_http_may_be_one_of_this_machine() -> None:
    settings = ServerSettings("a", transport="http", url="http://localhost:80/${PLACE}", headers={"A": "b\tc"})
    assert settings.to_json() == {
        "name": "a",
        "transport": "http",
        "url": "http://localhost:80/${PLACE}",
        "headers": {"A": "b\tc"},
    }
    lines = ServerSettings("a", command=["b"], env={"A": "b\nc"})  # type: ignore[arg-type]
    assert (lines.command, lines.env) == (("b",), {"A": "b\nc"})


RANGES: dict[str, tuple[float, float]] = {
    "timeout_s": (0.001, 86_400),
    "refresh_s": (0, 86_400),
    "max_parallel": (1, 1_000),
    "per_minute": (1, 1_000_000),
    "max_result_bytes": (1, 1 << 30),
}
GRANTED: dict[str, tuple[float, float]] = {"tokens": (1, 10_000_000), "requests": (1, 1_000)}


@pytest.mark.parametrize(
    ("kind", "name", "low", "high"),
    [
        *((Limits, name, *ends) for name, ends in RANGES.items()),
        *((SamplingGrant, name, *ends) for name, ends in GRANTED.items()),
    ],
)
def test_a_number_out_of_its_range_is_refused(kind: Any, name: str, low: float, high: float) -> None:
    more = {"tokens": 1} if kind is SamplingGrant else {}
    for value in (low, high):
        assert getattr(kind(**{**more, name: value}), name) == value
    for wrong in (low - 0.0001 if name == "timeout_s" else low - 1, high + 1, True, "1", None):
        if (name, wrong) == ("per_minute", None):
            continue
        with pytest.raises(InvalidValue) as caught:
            kind(**{**more, name: wrong})
        assert str(caught.value) == f"{name}: must be a number from {low} to {high}"
    if name not in ("timeout_s", "refresh_s"):
        with pytest.raises(InvalidValue):
            kind(**{**more, name: 1.5})
    else:
        assert getattr(kind(**{name: 1.5}), name) == 1.5


def test_the_defaults_of_limits_and_grants_are_those_of_the_docs() -> None:
    assert Limits() == Limits(60, 4, None, 1_048_576, 60)
    assert (Limits().to_json(), Limits.of_json({}), Limits(per_minute=3).to_json()) == ({}, Limits(), {"per_minute": 3})
    assert SamplingGrant(9).to_json() == {"tokens": 9, "requests": 8}
    assert SamplingGrant.of_json({"tokens": 9, "requests": 2}) == SamplingGrant(9, 2)
    with pytest.raises(InvalidValue) as caught:
        SamplingGrant.of_json({"requests": 2})
    assert str(caught.value) == "tokens: a grant names how many tokens a call may use"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "name: a server needs a name"),
        ({"name": "a", "env": {"A": {}}}, f"env.A: {VALUE}"),
        ({"name": "a", "env": {"A": {"secret": "a b"}}}, f"env.A: {VALUE}"),
        ({"name": "a", "env": {"A": {"secret": "a", "more": 1}}}, f"env.A: {VALUE}"),
        ({"name": "a", "headers": {"A": {"secret": 3}}}, f"headers.A: {VALUE}"),
        ({"name": "a", "headers": ["A"]}, "headers: must be a mapping from names to values"),
        (
            {"name": "a", "command": ["b"], "limits": {"timeout_s": 0}},
            "timeout_s: must be a number from 0.001 to 86400",
        ),
    ],
)
def test_json_of_another_form_is_refused(data: Any, problem: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ServerSettings.of_json(data)
    assert str(caught.value) == problem


@pytest.mark.parametrize("data", [{"name": "a", "command": ["b"], "args": []}, []])
def test_an_unknown_field_of_settings_is_refused(data: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^The settings of a server are an object with the fields command, "):
        ServerSettings.of_json(data)


def test_every_setting_comes_back_from_json() -> None:
    node = {
        "name": "a",
        "transport": "stdio",
        "command": ["b", "c"],
        "env": {"A": {"secret": "k@3"}, "B": "b"},
        "cwd": "/tmp",
        "limits": {"timeout_s": 5},
        "sampling": {"tokens": 9, "requests": 8},
        "roots": True,
    }
    settings = ServerSettings.of_json({**node, "url": None})
    assert settings.to_json() == node
    assert settings == ServerSettings(
        "a",
        command=("b", "c"),
        env={"A": SecretName("k", 3), "B": "b"},
        cwd="/tmp",
        limits=Limits(timeout_s=5),
        sampling=SamplingGrant(9),
        roots=True,
    )
    short = ServerSettings.of_json({"name": "a", "command": ["b"], "env": {"A": {"secret": "k"}}})
    assert short.env == {"A": SecretName("k", 1)}
    secret = ServerSettings.of_json({**HTTP.to_json(), "headers": {"X-Key": {"secret": "k@3"}}})
    assert secret.headers == {"X-Key": SecretName("k", 3)}
    assert secret.to_json()["headers"] == {"X-Key": {"secret": "k@3"}}
    assert HTTP.to_json() == {
        "name": "notes",
        "transport": "http",
        "url": "https://notes.example/mcp",
        "headers": {"Authorization": "Bearer ${secret:notes}"},
        "connection_id": "notes",
    }


def test_each_secret_is_named_once() -> None:
    env: dict[str, str | SecretName] = {
        "A": SecretName("k", 2),
        "B": "${secret:k@2} ${HOME} ${secret:l}",
        "C": SecretName("l", 1),
    }
    assert ServerSettings("a", command=("b",), env=env).secrets == (SecretName("k", 2), SecretName("l", 1))


@pytest.mark.parametrize(
    ("read", "what"),
    [(ServerSettings.of_json, "a server"), (Limits.of_json, "limits"), (SamplingGrant.of_json, "sampling")],
)
def test_an_unknown_setting_is_refused_with_those_that_there_are(read: Any, what: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read({"colour": "red"})
    known = sorted(field.name for field in fields(read.__self__))
    assert str(caught.value) == f"The settings of {what} are an object with the fields {', '.join(known)}."


def test_a_literal_credential_of_settings_is_named() -> None:
    settings = ServerSettings("a", command=("b",), env={"API_KEY": "ghp_0123456789abcdefABCDEF0123456789abcd"})
    with pytest.raises(InvalidValue) as caught:
        refuse_credentials(settings)
    assert (caught.value.code, caught.value.path) == ("literal_credential", "")
    assert caught.value.message == (
        "The value of API_KEY looks like a credential. Store it with 'demiurge secrets set' and write "
        "${secret:ALIAS}, or write ${VARIABLE}."
    )


def test_a_reference() -> None:
    assert parse_reference("TOKEN") == ("TOKEN", None)
    assert parse_reference("env:TOKEN") == ("TOKEN", None)
    assert parse_reference("LEVEL:-info") == ("LEVEL", "info")
    assert parse_reference("secret:a/b@12") == (SecretName("a/b", 12), None)
    with pytest.raises(InvalidValue):
        parse_reference("input:token")


def test_a_file_of_an_editor_is_read() -> None:
    servers = {
        "Git Hub": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "${TOKEN}", "LEVEL": "debug"}},
        "notes": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer ${T}"}},
    }
    expected = [
        ServerSettings("Git-Hub", command=("npx", "-y", "server"), env={"TOKEN": "${TOKEN}", "LEVEL": "debug"}),
        ServerSettings(
            "notes", transport="http", url="https://a.example/mcp", headers={"Authorization": "Bearer ${T}"}
        ),
    ]
    for key in ("mcpServers", "servers"):
        assert read_mcp_json(json.dumps({key: servers, "inputs": []})) == expected


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "a", "env": {"API_KEY": "canary-1"}},
        {"command": "a", "env": {"githubToken": "canary-1"}},
        {"command": "a", "env": {"X": "ghp_canary1canary1canary1"}},
        {"command": "a", "args": ["--api-key", "canary-1"]},
        {"command": "a", "args": ["--token=canary-1"]},
        {"command": "a", "args": ["postgres://me:canary-1@db/x"]},
        {"url": "https://a.example", "headers": {"Authorization": "Bearer canary-1-canary-1"}},
        {"url": "https://a.example", "headers": {"X-Api-Key": "canary-1"}},
        {"command": "docker", "args": ["run", "-e", "API_KEY=canary1", "image"]},
        {"command": "env", "args": ["DB_PASSWORD=canary1", "server"]},
        {"command": "sh", "args": ["-c", "export TOKEN=canary1; server"]},
        {"url": "https://a.example/mcp?lang=en&api_key=canary1"},
        {"command": "npx", "args": ["mcp-remote", "https://a.example", "--header", "X-Api-Key: canary1"]},
    ],
)
def test_a_literal_credential_of_a_file_is_refused_and_not_quoted(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_mcp_json(json.dumps({"mcpServers": {"a": entry}}))
    assert caught.value.code == "literal_credential"
    assert "canary" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [("LOG_LEVEL", "debug"), ("API_KEY", "${KEY}"), ("MONKEY", "banana"), ("USE_TOKEN", "true"), ("PATH", "/usr/bin")],
)
def test_a_value_that_is_no_credential(name: str, value: str) -> None:
    assert not looks_like_credential(name, value)


OBJECT = "mcpServers: The file needs an object 'mcpServers' with one object for each server."
PAIR = "mcpServers.a: needs 'command', a text, and 'args', a list"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", OBJECT),
        ('{"mcpServers": []}', OBJECT),
        ('{"mcpServers": {"a": 1}}', OBJECT),
        (
            '{"mcpServers": {"a": {"type": "sse", "url": "https://a.example"}}}',
            "mcpServers.a: the type must be 'stdio' or 'http'; the old SSE transport is not offered",
        ),
        (
            '{"mcpServers": {"a": {"transport": 3, "url": "https://a.example"}}}',
            "mcpServers.a: the type must be 'stdio' or 'http'; the old SSE transport is not offered",
        ),
        ('{"mcpServers": {"a": {"command": "b", "args": "c"}}}', PAIR),
        ('{"mcpServers": {"a": {"args": []}}}', PAIR),
        (
            '{"mcpServers": {"a b": {"command": "b"}, "a-b": {"command": "b"}}}',
            "mcpServers.a-b: Two servers get the name 'a-b': rename one.",
        ),
        ('{"mcpServers": {"a": {"command": "b", "args": ["${input:token}"]}}}', f"mcpServers.a: {REFERENCES}"),
        (
            '{"mcpServers": {"a": {"command": "b", "env": {"TOKEN": "canary-1"}}}}',
            "mcpServers.a: The value of TOKEN looks like a credential. Store it with 'demiurge secrets set' and write "
            "${secret:ALIAS}, or write ${VARIABLE}.",
        ),
        (
            '{"mcpServers": {"a": {"command": "b", "args": ["--token", "canary-1"]}}}',
            "mcpServers.a: The value of token looks like a credential. Others can see a command and a URL: write "
            "${VARIABLE}, or give it as a secret in 'env' or 'headers'.",
        ),
        (
            '{"mcpServers": {"a": {"command": "b", "args": ["ghp_canary1canary1canary1"]}}}',
            "mcpServers.a: The value of an argument looks like a credential. Others can see a command and a URL: write "
            "${VARIABLE}, or give it as a secret in 'env' or 'headers'.",
        ),
        (
            '{"mcpServers": {"a": {"url": "https://a.example/ghp_canary1canary1canary1"}}}',
            "mcpServers.a: The value of the URL looks like a credential. Others can see a command and a URL: write "
            "${VARIABLE}, or give it as a secret in 'env' or 'headers'.",
        ),
    ],
)
def test_a_file_of_another_form_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_mcp_json(text)
    assert str(caught.value) == problem


@pytest.mark.parametrize("text", ["[]", "x", '{"mcpServers": {"\u8bfb": {"command": "b"}}}'])
def test_a_file_that_names_no_server_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        read_mcp_json(text)


@pytest.mark.parametrize(
    ("name", "entry", "settings"),
    [
        ("a__b", {"command": "b"}, ServerSettings("a_b", command=("b",))),
        ("-_a!?b_-", {"command": "b", "env": None}, ServerSettings("a-b", command=("b",))),
        (f"{'x' * 31}_y", {"command": "b", "cwd": "/tmp"}, ServerSettings("x" * 31, command=("b",), cwd="/tmp")),
        ("a", {"transport": "stdio", "command": "b"}, ServerSettings("a", command=("b",))),
        ("a", {"url": "http://a", "headers": None}, ServerSettings("a", transport="http", url="http://a")),
        ("a", {"type": "streamable-http", "url": "http://a"}, ServerSettings("a", transport="http", url="http://a")),
        ("a", {"type": "streamableHttp", "url": "http://a"}, ServerSettings("a", transport="http", url="http://a")),
    ],
)
def test_an_entry_of_an_editor_s_file_is_read_in_each_of_its_forms(
    name: str, entry: dict[str, Any], settings: ServerSettings
) -> None:
    assert read_mcp_json(json.dumps({"mcpServers": {name: entry}})) == [settings]
