"""`demiurge mcp import`: the files of editors and agents, server by server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import bytes_below, find_values
from tests.cli.conftest import Run
from tests.cli.mcp_servers import ScriptedServer, tool_of

from demiurge.bootstrap.secrets import open_vault
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemEntropy

TOKEN = "ghp_0123456789abcdefABCDEF0123456789abcd"


def written(folder: Path, document: Any, name: str = ".mcp.json") -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return str(path)


def became(done: Any) -> dict[str, str]:
    """Returns, for each server of a file, its name in the world, or the reason why it was not taken."""
    return {one["name"]: one["server"] or one["reason"] for one in done.document["servers"]}


def test_each_server_of_a_file_is_taken_or_refused_with_a_reason(demiurge: Run, tmp_path: Path, world: Path) -> None:
    mail = ScriptedServer(tmp_path / "mail.json", tool_of("read"))
    file = written(
        tmp_path,
        {
            "mcpServers": {
                "mail": {"command": mail.command[0], "args": list(mail.command[1:]), "autoApprove": ["read"]},
                "github": {"command": "gh-mcp", "env": {"GITHUB_TOKEN": TOKEN}},
                "docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"X-Key": "${DOCS_KEY}"}},
                "old": {"type": "sse", "url": "https://old.example/sse"},
                "off": {"command": "x", "disabled": True},
            }
        },
    )
    done = demiurge("mcp", "import", file, "--json")
    assert done.status == 0, done.err
    found = became(done)
    assert (found["mail"], found["docs"]) == ("mail", "docs")
    assert "looks like a credential" in found["github"]
    assert "--seal" in found["github"]
    assert "SSE" in found["old"]
    assert "switched off" in found["off"]
    notes = {one["name"]: " ".join(one["notes"]) for one in done.document["servers"]}
    assert "autoApprove" in notes["mail"]
    assert "DOCS_KEY is not set" in notes["docs"]
    assert [server["name"] for server in demiurge("mcp", "ls", "--json").document["servers"]] == ["docs", "mail"]
    assert demiurge("mcp", "doctor", "mail").status == 0
    assert find_values([TOKEN], *bytes_below(world)) == []
    assert TOKEN not in done.out + done.err


def test_a_server_of_a_file_is_told_with_its_variables_and_headers(demiurge: Run, tmp_path: Path) -> None:
    env = {"NODE_OPTIONS": "--require ./x.js"}
    entry = {"command": "true", "env": env, "cwd": "/tmp"}
    away = {"url": "https://wiki.example/mcp", "headers": {"X-Home": "${AWS_SECRET_ACCESS_KEY}"}}
    done = demiurge("mcp", "import", written(tmp_path, {"mcpServers": {"local": entry, "away": away}}))
    assert "local: variable NODE_OPTIONS: --require ./x.js" in done.out
    assert "local: folder: /tmp" in done.out
    assert "away: header X-Home: ${AWS_SECRET_ACCESS_KEY}" in done.out


def test_a_server_runs_in_the_folder_that_it_was_added_or_imported_in(
    demiurge: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project, elsewhere):
        folder.mkdir()
        (folder / "server.py").write_text("raise SystemExit(3)")
    file = written(project, {"mcpServers": {"one": {"command": "python", "args": ["server.py"]}}})
    monkeypatch.chdir(project)
    demiurge("mcp", "add", "two", "--", "python", "-m", "server")
    monkeypatch.chdir(elsewhere)
    assert "one: folder: " + str(project) in demiurge("mcp", "import", file).out
    for server in demiurge("mcp", "ls", "--json").document["servers"]:
        assert server["settings"]["cwd"] == str(project)


def test_seal_puts_keys_of_the_file_into_the_vault(demiurge: Run, tmp_path: Path, world: Path) -> None:
    server = {"command": "gh-mcp", "env": {"GITHUB_TOKEN": TOKEN, "GITHUB_HOST": "github.example"}}
    done = demiurge("mcp", "import", written(tmp_path, {"mcpServers": {"github": server}}), "--seal", "--json")
    assert done.status == 0, done.err
    [one] = done.document["servers"]
    assert one["notes"] == [
        "GITHUB_TOKEN is in your vault as mcp/github/GITHUB_TOKEN; remove it from the file.",
        "variable GITHUB_TOKEN: ${secret:mcp/github/GITHUB_TOKEN}",
        "variable GITHUB_HOST: github.example",
    ]
    rows = {row["alias"]: row["state"] for row in demiurge("secrets", "ls", "--json").document["secrets"]}
    assert rows["mcp/github/GITHUB_TOKEN"] == "found"
    assert find_values([TOKEN], *bytes_below(world)) == []


@pytest.mark.parametrize(
    ("name", "key"), [("core", "GITHUB_TOKEN"), ("github", "\x1b]0;a\x07\nmail: taken\n_TOKEN"), ("there", "A_TOKEN")]
)
def test_no_key_of_a_server_that_is_not_taken_is_sealed(demiurge: Run, tmp_path: Path, name: str, key: str) -> None:
    demiurge("mcp", "add", "there", "--", "true")
    server = {"command": "gh-mcp", "env": {key: TOKEN}}
    done = demiurge("mcp", "import", written(tmp_path, {"mcpServers": {name: server}}), "--seal")
    assert (done.status, TOKEN in done.out + done.err) == (1, False)
    assert "vault" not in done.out
    assert len(done.out.splitlines()) == 2, "the header, and one line for the server"
    rows = demiurge("secrets", "ls", "--json").document["secrets"]
    assert [row["alias"] for row in rows if row["alias"].startswith("mcp/")] == []


def test_a_file_does_not_replace_a_secret_that_the_vault_has(demiurge: Run, tmp_path: Path) -> None:
    vault = open_vault(os.environ)
    assert vault is not None
    vault.put("mcp/github/GITHUB_TOKEN", 1, Secret("the user's own token"), SystemEntropy())
    server = {"command": "gh-mcp", "env": {"OTHER_TOKEN": TOKEN, "GITHUB_TOKEN": TOKEN}}
    document = {"mcpServers": {"github": server, "mail": {"command": "mail"}}}
    done = demiurge("mcp", "import", written(tmp_path, document), "--seal", "--json")
    assert "The secret mcp/github/GITHUB_TOKEN has another value" in became(done)["github"]
    assert became(done)["mail"] == "mail"
    kept = vault.get("mcp/github/GITHUB_TOKEN", 1)
    assert kept is not None
    assert kept.reveal() == "the user's own token"
    assert vault.get("mcp/github/OTHER_TOKEN", 1) is None


def test_two_keys_with_one_name_in_the_vault_are_refused(demiurge: Run, tmp_path: Path) -> None:
    headers = {"X-Api!Key": TOKEN, "X-Api#Key": TOKEN}
    server = {"url": "https://web.example/mcp", "headers": headers}
    done = demiurge("mcp", "import", written(tmp_path, {"mcpServers": {"web": server}}), "--seal")
    assert (done.status, "Two values would be mcp/web/X-Api-Key" in done.out) == (1, True)


@pytest.mark.parametrize("end", ["", "\\", "x"])
@pytest.mark.parametrize("piece", ['\\"', "/* ", '["a",/* '])
def test_a_file_with_texts_and_comments_without_an_end_is_read_once(
    demiurge: Run, tmp_path: Path, piece: str, end: str
) -> None:
    file = written(tmp_path, '{"' + piece * 300_000 + end)
    done = demiurge("mcp", "import", file)
    assert (done.status, "holds no JSON object" in done.err) == (1, True)


def test_a_file_without_an_end_is_not_read_to_it(demiurge: Run, tmp_path: Path) -> None:
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    done = demiurge("mcp", "import", str(tmp_path / "endless.json"))
    assert (done.status, "holds more than 16777216 bytes" in done.err) == (1, True)


def test_the_form_of_vs_code_is_read(demiurge: Run, tmp_path: Path) -> None:
    text = """{
      // what VS Code writes
      "inputs": [{"type": "promptString", "id": "api-key", "password": true}],
      "servers": {
        "files": {"type": "stdio", "command": "files-mcp", "args": ["${workspaceFolder}"],},
        "web": {"type": "http", "url": "https://web.example/mcp", "headers": {"X-Key": "${input:api-key}"}},
      },
    }"""
    done = demiurge("mcp", "import", written(tmp_path, text, ".vscode/mcp.json"), "--json")
    assert done.status == 0, done.err
    assert became(done) == {"files": "files", "web": "web"}
    files, web = demiurge("mcp", "ls", "--json").document["servers"]
    assert files["settings"]["command"] == ["files-mcp", str(tmp_path)]
    notes = {one["name"]: " ".join(one["notes"]) for one in done.document["servers"]}
    assert "secrets set mcp/web/api-key" in notes["web"]
    assert web["name"] == "web"


def test_a_file_without_servers_says_what_it_needs(demiurge: Run, tmp_path: Path) -> None:
    done = demiurge("mcp", "import", written(tmp_path, {"theme": "dark"}))
    assert (done.status, "mcpServers" in done.err) == (1, True)
    missing = demiurge("mcp", "import", str(tmp_path / "none.json"))
    assert (missing.status, "There is no file" in missing.err, "@" in missing.err) == (1, True, False)
    nothing = demiurge("mcp", "import", written(tmp_path, {"mcpServers": {"a b": {"url": "ftp://x"}}}))
    assert (nothing.status, "No server of the file was taken" in nothing.err) == (1, True)
