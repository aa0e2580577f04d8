"""Where this machine keeps secrets, and what a world makes of them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tests.provider import Provider, serving

from demiurge import World
from demiurge.bootstrap.models import choose
from demiurge.bootstrap.secrets import holds, open_vault, read_secrets, vault_places
from demiurge.errors import Unavailable
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemEntropy

CANARY = "canary-0123456789abcdef"


def put(environment: dict[str, str], alias: str = "llm/api", value: str = CANARY) -> None:
    vault = open_vault(environment)
    assert vault is not None
    vault.put(alias, 1, Secret(value), SystemEntropy())


def test_vault_and_key_lie_in_two_folders_of_the_user(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    places = vault_places(home)
    assert places == (tmp_path / ".local/share/demiurge/vault.json", tmp_path / ".config/demiurge/vault.key")
    put(home)
    assert [stat.S_IMODE(path.stat().st_mode) for path in places if path is not None] == [0o600, 0o600]
    moved = {**home, "XDG_DATA_HOME": str(tmp_path / "d"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    assert vault_places(moved) == (tmp_path / "d/demiurge/vault.json", tmp_path / "c/demiurge/vault.key")
    chosen = {**home, "DEMIURGE_VAULT": str(tmp_path / "mine.json"), "DEMIURGE_VAULT_KEY": "5a" * 32}
    assert vault_places(chosen) == (tmp_path / "mine.json", None)


def test_a_key_in_the_environment_makes_no_file(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "DEMIURGE_VAULT_KEY": "5A" * 32}
    put(environment)
    assert not (tmp_path / ".config").exists()
    again = open_vault({**environment, "DEMIURGE_VAULT_KEY": "5a" * 32 + "\n"})
    assert again is not None
    found = again.get("llm/api", 1)
    assert found is not None
    assert found.reveal() == CANARY
    bad = open_vault({**environment, "DEMIURGE_VAULT_KEY": "not a key"})
    assert bad is not None
    with pytest.raises(Unavailable, match="64 hexadecimal digits"):
        bad.get("llm/api", 1)


def test_an_environment_without_a_home_has_no_vault() -> None:
    assert vault_places({}) is None
    assert open_vault({}) is None
    assert not holds({}, "llm/api", 1)
    assert vault_places({"DEMIURGE_VAULT": "/v.json"}) is None
    assert vault_places({"DEMIURGE_VAULT": "/v.json", "DEMIURGE_VAULT_KEY": "5a" * 32}) == (Path("/v.json"), None)


def test_a_key_in_the_vault_chooses_the_provider_as_one_in_the_environment_does(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert choose(home).provider == "local"
    put(home)
    assert choose(home).provider == "openai-responses"
    (tmp_path / ".local/share/demiurge/vault.json").write_text("damaged")
    assert choose(home).provider == "local"


async def test_a_world_finds_its_models_key_in_the_vault_after_the_environment(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home")}
    put(home)
    folder = tmp_path / "w"
    with serving() as provider:
        provider.say(Provider.answer(Provider.text("Yes.")))
        given = home | {"OPENAI_BASE_URL": provider.url}
        for environment in (given, given | {"OPENAI_API_KEY": "sk-environment"}, given):
            async with World.open(folder, environment=environment, titles="off") as world:
                assert (await world.chat().send("Hello?")).status == "done"
                receipts = [record.body for record in world.journal.read() if record.kind == "receipt"]
                assert (await world.replay())["ok"]
        assert provider.keys == [f"Bearer {CANARY}", "Bearer sk-environment", f"Bearer {CANARY}"]
    [[first], [second], [third]] = [body["secrets"] for body in receipts]
    assert first == third
    assert first["digest"] != second["digest"]
    assert (first["alias"], first["version"]) == ("llm/api", 1)
    assert stat.S_IMODE((folder / "digest.key").stat().st_mode) == 0o600
    assert read_secrets(home, folder).digest("llm/api", Secret(CANARY)) == first["digest"]
    assert read_secrets(home, tmp_path / "another").digest("llm/api", Secret(CANARY)) is None


async def test_a_world_without_the_secret_says_what_to_do(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}, provider="openai-responses", titles="off") as world:
        reply = await world.chat().send("Hello?")
    assert reply.error_code == "secret_unavailable"
    assert reply.message == (
        "The secret llm/api@1 has no value: set LLM_API_KEY or OPENAI_API_KEY in the environment, "
        "or run `demiurge secrets set llm/api`."
    )
    assert not (tmp_path / "w" / "digest.key").exists()


async def test_a_world_that_is_open_takes_a_new_value_with_its_next_effect(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home")}
    with serving() as provider:
        provider.say(Provider.answer(Provider.text("Yes.")))
        given = home | {"OPENAI_BASE_URL": provider.url}
        async with World.open(tmp_path / "w", environment=given, provider="openai-responses", titles="off") as world:
            for value in ("sk-first", "sk-second"):
                put(home, value=value)
                assert (await world.chat().send("Hello?")).status == "done"
        assert provider.keys == ["Bearer sk-first", "Bearer sk-second"]
