"""`vault.put` and `vault.rotate`: new versions of a secret, of which nothing but a digest is ever recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import find_values
from tests.world.effects.effect_asker import effect_asker
from tests.world.effects.servers import http_response, serving_site
from tests.world.effects.vaults import (
    OTHER_KEY,
    ROBOT,
    fetch_with_secret,
    put_sealed_value,
    sealed_value,
    value_of,
    vault_adapters,
    vault_at,
    vault_manifest,
)
from tests.world.small_world import A

from demiurge import faults
from demiurge.errors import Unavailable
from demiurge.stores import MemoryStore, Store
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SeededEntropy, SystemEntropy
from demiurge.values.refs import ref_of
from demiurge.world.history.verify import verify

CANARY = "canary-0123456789-abcdef"
OTHER = "canary-9876543210-fedcba"


@pytest.fixture
def vault(tmp_path: Path) -> SecretVault:
    return vault_at(tmp_path)


def error_code_of(result: Mapping[str, Any]) -> str:
    assert result["status"] != "ok", result
    return str(result["payload"]["code"])


def stored_bytes(store: Store) -> list[bytes]:
    return [row.data for row in store.read_all()] + [store.get_blob(ref) for ref in store.iter_blobs()]


async def test_a_sealed_value_becomes_the_next_version_and_is_used(store: Store, vault: SecretVault) -> None:
    rules, tools = vault_manifest(), vault_adapters(vault, store.world_id)
    async with (
        serving_site({"/": http_response(200)}) as there,
        effect_asker(store, tools, {}, manifest=rules) as asker,
    ):
        kept = [await put_sealed_value(asker, sealed_value(vault, value, store.world_id)) for value in (CANARY, OTHER)]
        assert [(result["payload"]["alias"], result["payload"]["version"]) for result in kept] == [
            (ROBOT, 1),
            (ROBOT, 2),
        ]
        assert [value_of(vault, version) for version in (1, 2)] == [CANARY, OTHER]
        for version in (1, 2):
            assert (await fetch_with_secret(asker, there.port, version))["status"] == "ok"
        assert [asked.headers["x"] for asked in there.asked] == [CANARY, OTHER]
        handed = [body["secrets"][0] for record in asker.records_of("receipt") if "secrets" in (body := record.body)]
        assert handed == [result["payload"] for result in kept], "a digest says that it is the value that was put"
        assert [state.seq for state in asker.host.replay()]
    assert find_values((CANARY, OTHER), *stored_bytes(store)) == []
    assert verify(store).ok


async def test_a_rotated_value_is_fresh_and_the_one_before_stays(memory: MemoryStore, vault: SecretVault) -> None:
    vault.put(ROBOT, 1, Secret(CANARY), SystemEntropy())
    tools = vault_adapters(vault, memory.world_id)
    async with (
        serving_site({"/": http_response(200)}) as there,
        effect_asker(memory, tools, {}, manifest=vault_manifest()) as asker,
    ):
        made = [await asker.payload("vault.rotate", alias=ROBOT, bytes=size) for size in (None, 16, 256)]
        assert [(kept["version"], kept["previous_version"]) for kept in made] == [(2, 1), (3, 2), (4, 3)]
        assert len({kept["digest"] for kept in made}) == 3
        await fetch_with_secret(asker, there.port, 2)
        assert there.asked[0].headers["x"] == value_of(vault, 2)
    values = [value_of(vault, version) or "" for version in (1, 2, 3, 4)]
    assert values[0] == CANARY
    assert [len(value) for value in values[1:]] == [43, 22, 342]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", value) for value in values)
    assert find_values(values, *stored_bytes(memory)) == []


@pytest.mark.parametrize("size", [0, 15, 257, 1 << 40])
async def test_a_value_of_no_fitting_size_is_not_made(memory: MemoryStore, vault: SecretVault, size: int) -> None:
    vault.put(ROBOT, 1, Secret(CANARY), SystemEntropy())
    async with effect_asker(memory, vault_adapters(vault, memory.world_id), {}, manifest=vault_manifest()) as asker:
        assert await asker.code("vault.rotate", alias=ROBOT, bytes=size) == "bad_size"
    assert vault.names() == [(ROBOT, 1)]


async def test_rotating_an_unknown_alias_is_refused(memory: MemoryStore, vault: SecretVault) -> None:
    async with effect_asker(memory, vault_adapters(vault, memory.world_id), {}, manifest=vault_manifest()) as asker:
        assert await asker.code("vault.rotate", alias=ROBOT) == "unknown_alias"
    assert vault.names() == []


def flip_byte(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


async def test_a_value_not_sealed_for_this_vault_world_and_name_is_refused(
    memory: MemoryStore, vault: SecretVault, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, world = sealed_value(vault, CANARY, memory.world_id), memory.world_id
    others = {
        "clear": CANARY.encode(),
        "empty": b"",
        "large": b"x" * 100_000,
        "cut": good[:-1],
        "cut short": good[:40],
        "longer": good + b"\0",
        "another world's": sealed_value(vault, CANARY, "world_2"),
        "another name's": sealed_value(vault, CANARY, world, "web/other"),
        "another vault's": sealed_value(vault_at(tmp_path / "other", OTHER_KEY), CANARY, world),
        **{f"changed at {at}": flip_byte(good, at) for at in (0, 20, 31, 45, len(good) - 1)},
    }
    async with effect_asker(memory, vault_adapters(vault, world), {}, manifest=vault_manifest()) as asker:
        for name, data in others.items():
            refused = await put_sealed_value(asker, data)
            assert error_code_of(refused) == "sealed_invalid", name
            assert CANARY not in refused["payload"]["message"]
        assert (await put_sealed_value(asker, good))["status"] == "ok"
    assert vault.names() == [(ROBOT, 1)]
    assert CANARY not in caplog.text


async def test_a_blob_that_the_plan_was_not_given_is_not_opened(memory: MemoryStore, vault: SecretVault) -> None:
    ref = memory.put_blob(sealed_value(vault, CANARY, memory.world_id))
    async with effect_asker(memory, vault_adapters(vault, memory.world_id), {}, manifest=vault_manifest()) as asker:
        for there in (ref, ref_of(b"nowhere")):
            assert await asker.code("vault.put", alias=ROBOT, value_ref=there) == "not_found"
        assert await asker.code("vault.put", alias=ROBOT, value_ref=CANARY[:5]) == "invalid_ref"
    assert vault.names() == []


async def test_a_value_that_is_not_the_expected_one_is_not_kept(memory: MemoryStore, vault: SecretVault) -> None:
    world = memory.world_id
    async with effect_asker(memory, vault_adapters(vault, world), {}, manifest=vault_manifest()) as asker:
        digest = (await put_sealed_value(asker, sealed_value(vault, CANARY, world)))["payload"]["digest"]
        again = await put_sealed_value(asker, sealed_value(vault, CANARY, world), expected_digest=digest)
        assert again["payload"] == {"alias": ROBOT, "version": 2, "digest": digest}
        for wrong in ("", digest[:-1], digest.upper() + "0", "ü"):
            refused = await put_sealed_value(asker, sealed_value(vault, CANARY, world), expected_digest=wrong)
            assert error_code_of(refused) == "digest_mismatch"
        assert (
            error_code_of(await put_sealed_value(asker, sealed_value(vault, OTHER, world), expected_digest=digest))
            == "digest_mismatch"
        )
    assert vault.names() == [(ROBOT, 1), (ROBOT, 2)]


@pytest.mark.parametrize("aliases", [None, [], ["web/other"], ["web/*", "web/robot@1"]])
async def test_a_grant_covers_the_aliases_that_it_names(
    memory: MemoryStore, vault: SecretVault, aliases: Sequence[str] | None
) -> None:
    vault.put(ROBOT, 1, Secret(CANARY), SystemEntropy())
    async with effect_asker(
        memory, vault_adapters(vault, memory.world_id), {}, manifest=vault_manifest(aliases)
    ) as asker:
        assert await asker.code("vault.rotate", alias=ROBOT) == "alias_not_allowed"
        assert (
            error_code_of(await put_sealed_value(asker, sealed_value(vault, CANARY, memory.world_id)))
            == "alias_not_allowed"
        )
    assert vault.names() == [(ROBOT, 1)]


async def test_a_name_that_is_none_is_refused_also_where_a_grant_has_it(
    memory: MemoryStore, vault: SecretVault
) -> None:
    async with effect_asker(
        memory, vault_adapters(vault, memory.world_id), {}, manifest=vault_manifest(["a b"])
    ) as asker:
        refused = await put_sealed_value(asker, sealed_value(vault, CANARY, memory.world_id), "a b")
        assert error_code_of(refused) == "bad_alias"
        assert await asker.code("vault.rotate", alias="a b") == "unknown_alias"


async def test_without_a_vault_there_is_a_receipt_that_says_so(memory: MemoryStore, vault: SecretVault) -> None:
    async with effect_asker(memory, vault_adapters(None, memory.world_id), {}, manifest=vault_manifest()) as asker:
        assert await asker.code("vault.rotate", alias=ROBOT) == "secret_unavailable"
        assert (
            error_code_of(await put_sealed_value(asker, sealed_value(vault, CANARY, memory.world_id)))
            == "secret_unavailable"
        )


@pytest.mark.parametrize(
    ("secret", "refused"),
    [
        ({}, None),
        ({"allowed_caps": ["http_out"], "allowed_plans": ["ex/ask.http.request@1"]}, None),
        ({"allowed_caps": []}, "secret_not_allowed"),
        ({"allowed_plans": ["ex/ask.vault.rotate@1"]}, "secret_not_allowed"),
    ],
)
async def test_a_new_version_is_for_those_that_the_secret_is_for(
    memory: MemoryStore, vault: SecretVault, secret: Mapping[str, Any], refused: str | None
) -> None:
    vault.put(ROBOT, 1, Secret(CANARY), SystemEntropy())
    rules, tools = vault_manifest(**secret), vault_adapters(vault, memory.world_id)
    async with (
        serving_site({"/": http_response(200)}) as there,
        effect_asker(memory, tools, {}, manifest=rules) as asker,
    ):
        await asker.payload("vault.rotate", alias=ROBOT)
        assert (await fetch_with_secret(asker, there.port, 2))["payload"].get("code") == refused
        assert len(there.asked) == (refused is None)
        assert (await fetch_with_secret(asker, there.port, 3))["payload"]["code"] == (refused or "secret_unavailable")
        assert (await fetch_with_secret(asker, there.port, 0))["payload"]["code"] == "secret_unavailable"


# -- again -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vault.put", "vault.rotate"])
@pytest.mark.parametrize("made", [False, True], ids=["version not yet written", "version written"])
async def test_an_attempt_without_a_receipt_finds_its_own_version(
    memory: MemoryStore, vault: SecretVault, kind: str, made: bool
) -> None:
    vault.put(ROBOT, 1, Secret(OTHER), SystemEntropy())
    tools = vault_adapters(vault, memory.world_id)
    async with effect_asker(memory, tools, {}, manifest=vault_manifest()) as asker:
        ref = await asker.give(sealed_value(vault, CANARY, memory.world_id))
        with faults.armed({"effect.attempted": Unavailable("Gone.")}), pytest.raises(Unavailable, match="Gone"):
            await asker.ask(kind, alias=ROBOT, **({"value_ref": ref} if kind == "vault.put" else {}))
        [intent] = [intent.hex() for intent in asker.host.state(A).intents]
    if made:
        vault.add(ROBOT, Secret(CANARY), intent, SystemEntropy())
        vault.put(ROBOT, 7, Secret(OTHER), SystemEntropy())
    for entropy in ("first", "second"):
        tools = vault_adapters(vault, memory.world_id, SeededEntropy(entropy))
        async with effect_asker(memory, tools, {}, manifest=vault_manifest()) as asker:
            await asker.host.settle()
            kept = asker.outcome()["payload"]
            assert kept["version"] == 2
            assert len(asker.records_of("receipt")) == 1
    assert vault.names() == [(ROBOT, 1), (ROBOT, 2), *([(ROBOT, 7)] if made else [])]
    assert vault.version_of(intent) == 2
    if made or kind == "vault.put":
        assert value_of(vault, 2) == CANARY


async def test_on_a_full_disk_nothing_is_kept_and_nothing_lost(memory: MemoryStore, vault: SecretVault) -> None:
    vault.put(ROBOT, 1, Secret(CANARY), SystemEntropy())
    before = vault.path.read_bytes()
    async with effect_asker(memory, vault_adapters(vault, memory.world_id), {}, manifest=vault_manifest()) as asker:
        for point in ("file.half_written", "file.before_rename"):
            with faults.armed({point: "enospc"}):
                assert await asker.code("vault.rotate", alias=ROBOT) == "disk_full"
                assert (
                    error_code_of(await put_sealed_value(asker, sealed_value(vault, OTHER, memory.world_id)))
                    == "disk_full"
                )
            assert vault.path.read_bytes() == before
        assert (await asker.payload("vault.rotate", alias=ROBOT))["version"] == 2


async def test_a_version_that_is_there_although_its_write_failed_is_answered(
    memory: MemoryStore, vault: SecretVault
) -> None:
    vault.put(ROBOT, 1, Secret(CANARY), SystemEntropy())
    async with effect_asker(memory, vault_adapters(vault, memory.world_id), {}, manifest=vault_manifest()) as asker:
        with faults.armed({"file.after_rename": "eio"}):
            assert (await asker.payload("vault.rotate", alias=ROBOT))["version"] == 2
    assert vault.names() == [(ROBOT, 1), (ROBOT, 2)]


async def test_while_nobody_knows_whether_it_will_stay_there_is_no_outcome(
    memory: MemoryStore, vault: SecretVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.put(ROBOT, 1, Secret(CANARY), SystemEntropy())
    tools = vault_adapters(vault, memory.world_id)

    def broken(_folder: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("demiurge.stores.secret_vault.sync_folder", broken)
        with pytest.raises(Unavailable), faults.armed({"file.after_rename": "eio"}):
            async with effect_asker(memory, tools, {}, manifest=vault_manifest()) as asker:
                await asker.ask("vault.rotate", alias=ROBOT)
    async with effect_asker(memory, tools, {}, manifest=vault_manifest()) as asker:
        await asker.host.settle()
        assert asker.outcome()["payload"]["version"] == 2
    assert vault.names() == [(ROBOT, 1), (ROBOT, 2)]
