"""`--allow-host`: remembered like `--tools`, shown where one looks, and refused if it is no host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest


def allowed(demiurge: Any, *options: str) -> Any:
    return demiurge("--json", "manifest", "get", *options).document.get("allowed_hosts")


def test_hosts_are_remembered_shown_and_forgotten(demiurge: Any) -> None:
    done = demiurge("init", "--allow-host", "API.example.com", "--allow-host", "host.example:8443")
    assert done.status == 0
    assert "Remembered for this world: --allow-host api.example.com --allow-host host.example:8443." in done.err
    assert allowed(demiurge) == ["api.example.com", "host.example:8443"]
    assert allowed(demiurge, "--allow-host", "other.example") == ["other.example"]
    assert allowed(demiurge) == ["api.example.com", "host.example:8443"]
    doctor = demiurge("--json", "doctor").document["checks"]
    [check] = [check for check in doctor if check["name"] == "allowed hosts"]
    assert check["detail"] == "tools may ask api.example.com, host.example:8443 by HTTPS"
    [decision] = demiurge("--json", "policy", "explain", "http.request").document["decisions"]
    assert (decision["decision"], decision["cap"]) == ("allow", "allowed_hosts")
    assert decision["rule"]["when"]["cap_name"] == "allowed_hosts"
    assert demiurge("tools", "call", "core.get_current_time", "{}").status == 0
    assert demiurge("replay", "--check").document["ok"]
    assert demiurge("init", "--forget").status == 0
    assert allowed(demiurge) is None
    [decision] = demiurge("--json", "policy", "explain", "http.request").document["decisions"]
    assert (decision["decision"], "--allow-host HOST" in decision["why"]) == ("deny", True)


def test_a_chat_takes_hosts_and_remembers_the_first(demiurge: Any, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Hello.")), provider.answer(provider.text("Hello again.")))
    assert "--allow-host api.example.com" in demiurge("chat", "-m", "Hi.", "--allow-host", "api.example.com").err
    assert allowed(demiurge) == ["api.example.com"]
    assert demiurge("chat", "-m", "Hi.", "--allow-host", "other.example").status == 0
    assert allowed(demiurge) == ["api.example.com"]


def test_a_copied_world_has_no_hosts(demiurge: Any, world: Path, tmp_path: Path) -> None:
    assert demiurge("init", "--allow-host", "api.example.com").status == 0
    assert demiurge("tools", "call", "core.get_current_time", "{}").status == 0
    shutil.copytree(world, tmp_path / "copy")
    assert allowed(lambda *words: demiurge("-w", "copy", *words)) is None


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("https://api.example.com", "has a scheme: write the host alone"),
        ("*.example.com", "has a wildcard: name each host"),
        ("127.0.0.1", "is a loopback address"),
    ],
)
def test_a_wrong_host_is_refused_and_makes_no_world(demiurge: Any, world: Path, host: str, told: str) -> None:
    done = demiurge("--json", "init", "--allow-host", host)
    assert (done.status, done.document["error"]["code"]) == (1, "bad_host")
    assert told in done.document["error"]["message"]
    assert not (world / "journal.db").exists()
