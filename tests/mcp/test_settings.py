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


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": "a b"}, "name"),
        ({"transport": "sse"}, "transport"),
        ({"command": ()}, "command"),
        ({"command": "git log"}, "command"),
        ({"command": ("git\0",)}, "command"),
        ({"env": {"A B": "c"}}, "env"),
        ({"env": {"A": 3}}, "env.A"),
        ({"env": {"A": "${input:x}"}}, ""),
        ({"command": ("x", "${}")}, ""),
        ({"command": ("x", "--token=${secret:a}")}, ""),
        ({"cwd": ""}, "cwd"),
        ({"url": "https://a.example"}, "url"),
        ({"limits": {}}, "limits"),
    ],
)
def test_settings_of_another_form_are_refused(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ServerSettings(**{"name": "a", "command": ("b",), **change})
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"url": None}, "url"),
        ({"url": "ftp://a.example"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "http://[a"}, "url"),
        ({"url": "https://user:word@a.example"}, "url"),
        ({"headers": {"A": "b\r\nC: d"}}, "headers.A"),
        ({"headers": {"A:": "b"}}, "headers"),
        ({"command": ("b",)}, "command"),
        ({"env": {"A": "b"}}, "env"),
    ],
)
def test_settings_of_a_server_over_http_of_another_form_are_refused(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ServerSettings(**{"name": "a", "transport": "http", "url": "https://a.example", **change})
    assert caught.value.path == path


@pytest.mark.parametrize(
    "change", [{"timeout_s": 0}, {"max_parallel": 0}, {"max_parallel": 1.5}, {"refresh_s": -1}, {"per_minute": True}]
)
def test_a_limit_out_of_its_range_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Limits(**change)


@pytest.mark.parametrize("data", [{}, {"name": "a", "command": ["b"], "args": []}, [], {"name": "a", "env": {"A": {}}}])
def test_json_of_another_form_is_refused(data: Any) -> None:
    with pytest.raises(InvalidValue):
        ServerSettings.of_json(data)


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


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"mcpServers": []}',
        '{"mcpServers": {"a": 1}}',
        '{"mcpServers": {"a": {"type": "sse", "url": "https://a.example"}}}',
        '{"mcpServers": {"a": {"command": "b", "args": "c"}}}',
        '{"mcpServers": {"a b": {"command": "b"}, "a-b": {"command": "b"}}}',
        '{"mcpServers": {"\u8bfb": {"command": "b"}}}',
        '{"mcpServers": {"a": {"command": "b", "args": ["${input:token}"]}}}',
    ],
)
def test_a_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        read_mcp_json(text)
