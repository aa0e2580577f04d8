"""The vault of secrets: sealed at rest, opened by its key alone, each only in its own place."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from demiurge import faults
from demiurge.errors import Damaged, NotFound, Unavailable
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemEntropy

CANARY = "canary-vault-0123456789"
KEY, OTHER_KEY = "5a" * 32, "5b" * 32


def vault(path: Path, key: str | None = KEY) -> SecretVault:
    return SecretVault(path, lambda: None if key is None else Secret(key), lambda: Secret(key or KEY))


def put(kept: SecretVault, alias: str, value: str, version: int = 1) -> None:
    kept.put(alias, version, Secret(value), SystemEntropy())


def read(kept: SecretVault, alias: str, version: int = 1) -> str | None:
    found = kept.get(alias, version)
    return None if found is None else found.reveal()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "vault.json"


def test_looking_into_a_vault_that_is_not_there_makes_none(path: Path) -> None:
    kept = vault(path)
    assert kept.names() == []
    assert read(kept, "llm/api") is None
    assert not kept.discard("llm/api", 1)
    assert not path.parent.exists()


def test_a_secret_is_found_by_another_process(path: Path) -> None:
    put(vault(path), "llm/api", CANARY)
    put(vault(path), "llm/api", "the second", version=2)
    assert vault(path).names() == [("llm/api", 1), ("llm/api", 2)]
    assert read(vault(path), "llm/api") == CANARY
    assert read(vault(path), "llm/api", 2) == "the second"
    put(vault(path), "llm/api", "replaced")
    assert read(vault(path), "llm/api") == "replaced"
    assert vault(path).discard("llm/api", 1)
    assert not vault(path).discard("llm/api", 1)
    assert vault(path).names() == [("llm/api", 2)]


def test_the_file_is_closed_and_holds_no_value(path: Path) -> None:
    put(vault(path), "llm/api", CANARY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert CANARY not in path.read_text()
    assert KEY not in path.read_text()


def test_equal_values_are_sealed_differently(path: Path) -> None:
    for alias in ("a", "b"):
        put(vault(path), alias, CANARY)
    first, second = json.loads(path.read_text())["secrets"]
    assert first["sealed"] != second["sealed"]


def test_a_sealed_secret_does_not_open_in_the_place_of_another(path: Path) -> None:
    put(vault(path), "llm/api", CANARY)
    put(vault(path), "web/robot", "other")
    node = json.loads(path.read_text())
    first, second = node["secrets"]
    first["sealed"], second["sealed"] = second["sealed"], first["sealed"]
    path.write_text(json.dumps(node))
    for alias in ("llm/api", "web/robot"):
        with pytest.raises(Damaged, match=f"{alias}@1"):
            vault(path).get(alias, 1)


def test_without_its_key_or_with_another_nothing_opens_and_names_are_shown(path: Path) -> None:
    put(vault(path), "llm/api", CANARY)
    for key in (None, OTHER_KEY):
        closed = vault(path, key)
        assert closed.names() == [("llm/api", 1)]
        with pytest.raises(Unavailable) as refused:
            closed.get("llm/api", 1)
        assert refused.value.code == "secret_unavailable"
        assert "key" in refused.value.message
    put(vault(path, OTHER_KEY), "llm/api", "again")
    assert read(vault(path, OTHER_KEY), "llm/api") == "again"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"format": "demiurge-secrets", "version": 2, "secrets": []}', '{"version": 1}'],
)
def test_a_value_that_is_no_vault_is_left_as_it_is(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o600)
    for act in (lambda: vault(path).names(), lambda: put(vault(path), "a", "b")):
        with pytest.raises(Damaged):
            act()
    assert path.read_text() == text


def test_a_vault_that_others_could_read_is_refused(path: Path) -> None:
    put(vault(path), "llm/api", CANARY)
    path.chmod(0o644)
    with pytest.raises(Unavailable, match="chmod 600"):
        vault(path).get("llm/api", 1)


def test_concurrent_writers_of_the_vault_lose_nothing(path: Path) -> None:
    threads = [threading.Thread(target=put, args=(vault(path), f"a/{n}", str(n))) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {alias: read(vault(path), alias) for alias, _ in vault(path).names()} == {
        f"a/{n}": str(n) for n in range(16)
    }


def test_without_the_package_it_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(vault(path), "llm/api", CANARY)

    def missing(*_: Any) -> None:
        return None

    monkeypatch.setattr("demiurge.tools.connections.keyring._cipher", missing)
    with pytest.raises(Unavailable, match="pip install") as refused:
        vault(path).get("llm/api", 1)
    assert refused.value.code == "missing_package"


# -- versions that effects make ----------------------------------------------------------------------------------------


def add(kept: SecretVault, alias: str, value: str, intent: str, *, first: bool = True) -> int:
    return kept.add(alias, Secret(value), intent, SystemEntropy(), first=first)


def test_an_intent_makes_the_next_version_and_never_two(path: Path) -> None:
    put(vault(path), "a", CANARY, version=4)
    put(vault(path), "b", CANARY, version=9)
    assert add(vault(path), "a", "five", "i") == 5
    assert add(vault(path), "a", "again", "i") == 5
    assert add(vault(path), "a", "six", "j") == 6
    assert add(vault(path), "c", "one", "k") == 1
    assert [read(vault(path), "a", version) for version in (4, 5, 6)] == [CANARY, "five", "six"]
    assert [vault(path).version_of(intent) for intent in ("i", "j", "k", "", "l")] == [5, 6, 1, None, None]


def test_replacing_a_secret_keeps_the_intent_that_made_its_version(path: Path) -> None:
    add(vault(path), "a", "made", "i")
    put(vault(path), "a", "set by a person")
    assert add(vault(path), "a", "again", "i") == 1
    assert read(vault(path), "a") == "set by a person"


def test_a_value_that_is_not_there_is_not_renewed(path: Path) -> None:
    with pytest.raises(NotFound) as refused:
        add(vault(path), "a", "value", "i", first=False)
    assert refused.value.code == "unknown_alias"
    assert vault(path).names() == []


def test_concurrent_adds_of_a_secret_get_a_version_each(path: Path) -> None:
    made: list[int] = []

    def work(number: int) -> None:
        made.append(add(vault(path), "a", str(number), f"intent {number % 8}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == sorted([*range(1, 9)] * 2)
    assert vault(path).names() == [("a", version) for version in range(1, 9)]


def test_a_full_vault_takes_nothing_and_stays_readable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(vault(path), "a", CANARY)
    before = path.read_bytes()
    monkeypatch.setattr("demiurge.stores.secret_vault.MAX_BYTES", len(before) + 100)
    for act in (lambda: add(vault(path), "a", "x" * 200, "i"), lambda: put(vault(path), "b", "x" * 200)):
        with pytest.raises(Unavailable, match="secrets rm") as refused:
            act()
        assert refused.value.code == "vault_full"
    assert path.read_bytes() == before


@pytest.mark.parametrize("point", ["file.half_written", "file.before_rename"])
def test_on_a_full_disk_it_stays_as_it_was(path: Path, point: str) -> None:
    put(vault(path), "a", CANARY)
    before = path.read_bytes()
    with faults.armed({point: "enospc"}), pytest.raises(Unavailable) as refused:
        add(vault(path), "a", "value", "i")
    assert refused.value.code == "disk_full"
    assert path.read_bytes() == before
    assert add(vault(path), "a", "value", "i") == 2
