"""`demiurge connections`: a token goes in by stdin or the environment and comes out nowhere; a chat uses it until it is
revoked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import bytes_below, find_values

CANARY = "canary/token+0123456789=%"

DESK = '''
from pathlib import Path

from demiurge import AuthCapability, ToolContext, ToolEffect, tool


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT, requires_connection=True)
def close_issue(number: int, context: ToolContext) -> str:
    """Closes an issue."""
    token = context.resources.get(AuthCapability).get_access_token()
    with Path("seen.txt").open("a") as seen:
        seen.write(f"{len(token)}\\n")
    return f"closed {number}"
'''

POLICY = 'allowed_tools = ["close_issue"]\nrequire_approval_for_tools = ["close_issue"]\n'


@pytest.fixture
def desk(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options of a world with a tool that needs a connection."""
    (tmp_path / "issue_desk.py").write_text(DESK)
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.syspath_prepend(str(tmp_path))
    return ("--tools", "issue_desk", "--policy", str(tmp_path / "policy.toml"))


def add(demiurge: Any, *more: str) -> str:
    done = demiurge("connections", "add", "tracker", "--json", *more, stdin=f"{CANARY}\n".encode())
    assert done.status == 0, done
    made: str = done.document["id"]
    return made


def test_a_connection_is_added_shown_and_revoked(demiurge: Any, environment: dict[str, str], tmp_path: Path) -> None:
    demiurge("init")
    assert "There is no connection yet" in demiurge("connections", "ls").out
    made = add(demiurge, "--tool", "close_issue", "--scope", "issues", "--chat", "main", "--expires-at", "2999-01-31")
    [one] = demiurge("connections", "ls", "--json").document["connections"]
    assert (one["id"], one["provider"], one["state"], one["tools"]) == (made, "tracker", "usable", ["close_issue"])
    assert (one["scopes"], one["used_by"], one["added_by"]) == (["issues"], {"main": []}, "user")
    assert one["expires_at_ms"] == 32474736000000
    shown = demiurge("connections", "ls").out
    assert all(word in shown for word in (made, "tracker", "usable", "close_issue", "main"))
    used = demiurge("connections", "use", made, "--chat", "other", "--tool", "close_issue")
    assert used.out == f"close_issue in the chat other uses {made}.\n"
    assert demiurge("connections", "use", "--none").out == "The chat main uses no connection.\n"
    listed = demiurge("secrets", "ls")
    assert "see `demiurge connections ls` of its world" in listed.out
    done = demiurge("connections", "revoke", made, "--reason", "lost")
    assert done.out == f"{made} is revoked.\n"
    assert "connection/" not in demiurge("secrets", "ls").out
    [one] = demiurge("connections", "ls", "--json").document["connections"]
    assert (one["state"], one["revoked_by"], one["reason"]) == ("revoked", "user", "lost")
    exported = demiurge("journal", "export")
    assert made in exported.out
    assert find_values([CANARY], exported.out, shown, listed.out, *bytes_below(tmp_path)) == []


def test_a_token_is_taken_from_the_environment_and_never_from_an_argument(
    demiurge: Any, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", CANARY)
    done = demiurge("connections", "add", "tracker", "--env", "TRACKER_TOKEN", "--username", "ada")
    assert (done.status, find_values([CANARY], done.out, done.err)) == (0, [])
    refused = demiurge("connections", "add", "tracker", "--env", "NOT_SET")
    assert (refused.status, "NOT_SET is not set in the environment." in refused.err) == (1, True)
    assert demiurge("connections", "add", "tracker", CANARY, stdin=b"").status == 2


@pytest.mark.parametrize(
    ("words", "stdin", "status", "said"),
    [
        (["add", "tracker"], b"", 1, "There is no value on stdin"),
        (["add", "tracker"], f"two\nlines {CANARY}".encode(), 1, "printable"),
        (["add", "tracker", "--expires-at", "soon"], CANARY.encode(), 1, "'soon' is no time"),
        (["add", "tracker", "--tool", "no tool!"], CANARY.encode(), 1, "tool"),
        (["add", "tracker", "--username", "a", "--header", "b"], CANARY.encode(), 1, "can't go with a username"),
        (["use"], b"", 2, "Name a connection, or say --none."),
        (["use", "conn_1", "--none"], b"", 2, "Name a connection, or say --none."),
        (["use", "conn_1"], b"", 1, "There is no connection conn_1"),
        (["revoke", "conn_1"], b"", 1, "There is no such connection."),
    ],
)
def test_a_wrong_connections_command_is_explained_without_the_token(
    demiurge: Any, environment: dict[str, str], words: list[str], stdin: bytes, status: int, said: str
) -> None:
    demiurge("init")
    done = demiurge("connections", *words, stdin=stdin)
    assert (done.status, said in done.err) == (status, True), done
    assert find_values([CANARY], done.out, done.err) == []


def test_a_person_sees_the_connection_and_a_revocation_counts_while_they_are_asked(
    demiurge: Any, desk: tuple[str, ...], tmp_path: Path
) -> None:
    made = add(demiurge)
    for call_id, revokes in (("c1", False), ("c2", True)):
        asked = demiurge(
            "tools", "call", "close_issue", '{"number": 7}', "--call-id", call_id, "--connection", made, *desk
        )
        assert asked.status == 1
        assert f"with the connection {made} (tracker)" in asked.out
        [waiting] = demiurge("approvals", "ls", "--json").document["approvals"]
        if revokes:
            demiurge("connections", "revoke", made)
        demiurge("approvals", "approve", waiting["id"], *desk)
    assert (tmp_path / "seen.txt").read_text() == f"{len(CANARY)}\n"
    records = [json.loads(line) for line in demiurge("journal", "export").out.splitlines()]
    receipts = [record["body"] for record in records if record["kind"] == "receipt"]
    assert [(receipt["connection"]["id"], receipt["connection"]["lent"]) for receipt in receipts] == [
        (made, True),
        (made, False),
    ]
    assert receipts[1]["payload"]["error_code"] == "connection_unavailable"
    [first] = [record for record in records if record["unit"] == "demiurge/Calls@1/c1" and record["seq"] == 0]
    assert f"with connection {made} (tracker)" in demiurge("trace", first["hash"]).out
    assert demiurge("journal", "verify").status == 0
    assert demiurge("replay").status == 0
    assert find_values([CANARY], *bytes_below(tmp_path)) == []
