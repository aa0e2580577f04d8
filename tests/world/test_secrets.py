"""Secrets of a world: where they are looked for, who may have them, and what is journaled of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.world.effects.effect_asker import Asker, asking_manifest, effect_asker, interrupt_effect
from tests.world.effects.servers import SeenRequest, http_response, serving_site
from tests.world.small_world import SECOND, START_NS

from demiurge.errors import InvalidValue, Unavailable
from demiurge.stores import MemoryStore, Store
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret as Text
from demiurge.values.clock import FixedClock, SystemEntropy
from demiurge.world.effects.http import HttpRequests
from demiurge.world.history.verify import verify
from demiurge.world.manifest import DeclaredSecret, Manifest
from demiurge.world.secrets import Secrets, how_to_set

CANARY = "canary-0123456789"
OTHER = "canary-9876543210"
GRANT: Mapping[str, Any] = {"internal_networks": ["127.0.0.0/8"], "secrets": ["web/robot@1"]}
ROBOT = {"$tag": "secret", "$value": {"alias": "web/robot", "version": 1}}
KEY = b"k" * 32


def secret_definition(*bindings: str, **more: Any) -> dict[str, Any]:
    first, *rest = bindings
    return {"$kind": "defsecret", "name": "web/robot@1", "binding_id": first, "else_binding_ids": rest, **more}


def declared_secret(*bindings: str, **more: Any) -> DeclaredSecret:
    return DeclaredSecret.from_definition(secret_definition(*bindings, **more))


def manifest(*bindings: str, **more: Any) -> Manifest:
    return asking_manifest({"http.out": GRANT, "blob": {}}, [secret_definition(*bindings, **more)] if bindings else [])


def adapter(environment: Mapping[str, str], key: bytes = KEY) -> HttpRequests:
    return HttpRequests(Secrets(environment, digest_key=lambda: key), FixedClock(START_NS, SECOND))


async def fetch(asker: Asker, port: int, headers: Sequence[str] = ("x",)) -> Mapping[str, Any]:
    url = f"http://127.0.0.1:{port}/"
    return await asker.ask("http.request", method="GET", url=url, headers=dict.fromkeys(headers, ROBOT))


def secrets_in_receipts(asker: Asker) -> list[Any]:
    return [record.body.get("secrets") for record in asker.records_of("receipt")]


# -- what is journaled -------------------------------------------------------------------------------------------------


async def test_each_injection_is_journaled_with_a_keyed_digest_and_replays(store: Store) -> None:
    async with serving_site({"/": http_response(200)}) as there:
        for value, key in ((CANARY, KEY), (CANARY, KEY), (OTHER, KEY), (CANARY, b"l" * 32)):
            tools = [adapter({"ROBOT": value}, key)]
            async with effect_asker(store, tools, {}, manifest=manifest("env:ROBOT")) as asker:
                assert (await fetch(asker, there.port, ("x", "y")))["status"] == "ok"
                said = secrets_in_receipts(asker)
                assert [state.seq for state in asker.host.replay()]
    assert all(entry["alias"] == "web/robot" and entry["version"] == 1 for [entry] in said)
    first, again, other, elsewhere = (entry["digest"] for [entry] in said)
    assert first == again
    assert len({first, other, elsewhere}) == 3
    assert all(len(bytes.fromhex(digest)) == 8 for digest in (first, other, elsewhere))
    assert verify(store).ok


async def test_a_failed_effect_says_what_it_was_handed_and_one_that_got_nothing_says_nothing(
    memory: MemoryStore,
) -> None:
    tools = [adapter({"ROBOT": CANARY})]
    async with effect_asker(memory, tools, {}, manifest=manifest("env:ROBOT")) as asker:
        assert (await fetch(asker, 1))["payload"]["code"] == "connect_failed"
        assert [len(said) for said in secrets_in_receipts(asker)] == [1]
    async with effect_asker(memory, [adapter({})], {}, manifest=manifest("env:ROBOT")) as asker:
        assert (await fetch(asker, 1))["payload"]["code"] == "secret_unavailable"
        assert secrets_in_receipts(asker)[1:] == [None]


async def test_a_secret_that_a_server_sends_back_is_masked_in_every_spelling(memory: MemoryStore) -> None:
    async def echo(asked: SeenRequest, writer: Any) -> None:
        value = asked.headers["x"].encode()
        body = b" ".join((value, value.hex().encode(), b"%63anary"))
        writer.write(http_response(302, body, location=f"/at/{asked.headers['x']}", x_echo=value.hex()))

    tools = [adapter({"ROBOT": CANARY})]
    async with (
        serving_site({"/": echo}) as there,
        effect_asker(memory, tools, {}, manifest=manifest("env:ROBOT")) as asker,
    ):
        url = f"http://127.0.0.1:{there.port}/"
        asked = {"method": "GET", "url": url, "headers": {"x": ROBOT}}
        shown = await asker.payload("http.request", **asked)
        assert shown["headers"]["location"] == "/at/[secret]"
        assert shown["headers"]["x-echo"] == "[secret]"
        assert asker.host.get_blob(shown["body_ref"]) == b"[secret] [secret] %63anary"
        assert shown["size"] == len(b"[secret] [secret] %63anary")
        followed = await asker.payload("http.request", max_redirects=1, **asked)
        assert followed["url"] == f"{url}at/[secret]"
        stored = [row.data for row in memory.read_all()] + [memory.get_blob(ref) for ref in memory.iter_blobs()]
        assert not any(CANARY.encode() in data or CANARY.encode().hex().encode() in data for data in stored)


# -- where it is looked for --------------------------------------------------------------------------------------------


def find_value(secrets: Secrets, wanted: DeclaredSecret) -> str | None:
    found = secrets.find(wanted)
    return None if found is None else found.reveal()


def test_places_are_asked_in_their_order(tmp_path: Path) -> None:
    key = Text("5a" * 32)
    vault = SecretVault(tmp_path / "v" / "vault.json", lambda: key, lambda: key)
    environment = {"HOME": str(tmp_path)}
    path = tmp_path / "robot.txt"
    wanted = declared_secret("env:A", "env:B", "file:~/robot.txt", "vault:robot")
    secrets = Secrets(environment, vault=vault)
    assert find_value(secrets, wanted) is None
    assert [place.state for place in secrets.check_bindings(wanted)] == ["absent"] * 4
    vault.put("robot", 2, Text("of another version"), SystemEntropy())
    assert find_value(secrets, wanted) is None
    vault.put("robot", 1, Text("from the vault"), SystemEntropy())
    assert find_value(secrets, wanted) == "from the vault"
    path.write_text("from the file\n")
    path.chmod(0o600)
    assert find_value(secrets, wanted) == "from the file"
    environment["B"] = " from the environment \n"
    environment["A"] = " "
    assert find_value(secrets, wanted) == "from the environment"
    assert [place.state for place in secrets.check_bindings(wanted)] == ["absent", "found", "found", "found"]


def test_a_place_that_can_not_be_trusted_stops_the_search(tmp_path: Path) -> None:
    path = tmp_path / "robot.txt"
    path.write_text(CANARY)
    path.chmod(0o644)
    wanted = declared_secret(f"file:{path}", "env:ROBOT")
    secrets = Secrets({"ROBOT": OTHER})
    with pytest.raises(Unavailable, match="chmod 600") as refused:
        secrets.find(wanted)
    assert CANARY not in refused.value.message
    refused_place, found = secrets.check_bindings(wanted)
    assert (refused_place.state, found.state) == ("refused", "found")
    assert "chmod 600" in refused_place.why


def test_a_variable_that_is_no_text_is_refused() -> None:
    with pytest.raises(Unavailable, match="not UTF-8"):
        Secrets({"ROBOT": "canary\udcff"}).find(declared_secret("env:ROBOT"))


def test_a_missing_secret_says_all_that_would_help() -> None:
    assert how_to_set(declared_secret("env:A", "env:B", "file:/x", "vault:r")) == (
        "set A or B in the environment, or write it to /x (mode 0600), or run `demiurge secrets set r`"
    )
    second = DeclaredSecret.from_definition({"name": "r@2", "binding_id": "vault:r"})
    assert how_to_set(second) == "run `demiurge secrets set r --version 2`"


@pytest.mark.parametrize("binding", ["", "ROBOT", "env:", "env:A=B", "file:robot.txt", "file:", "vault:", "http://x"])
def test_a_binding_to_no_place_is_refused_with_the_manifest(binding: str) -> None:
    with pytest.raises(InvalidValue, match="web/robot@1"):
        manifest(binding)


@pytest.mark.parametrize("name", ["web/robot", "web/robot@", "@1", "web/robot@x"])
def test_so_is_a_name_without_a_version(name: str) -> None:
    with pytest.raises(InvalidValue, match="versioned name"):
        asking_manifest({"http.out": GRANT}, [secret_definition("env:ROBOT") | {"name": name}])


# -- who may have it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "code"),
    [
        ({}, None),
        ({"allowed_caps": ["http_out"]}, None),
        ({"allowed_plans": ["ex/ask.http.request@1"], "allowed_caps": ["http_out"]}, None),
        ({"allowed_caps": []}, "secret_not_allowed"),
        ({"allowed_caps": ["echo"]}, "secret_not_allowed"),
        ({"allowed_plans": []}, "secret_not_allowed"),
        ({"allowed_plans": ["ex/ask.blob.get@1"]}, "secret_not_allowed"),
    ],
)
async def test_only_the_caps_and_plans_that_it_names_get_it(
    memory: MemoryStore, allowed: Mapping[str, Any], code: str | None
) -> None:
    rules = manifest("env:ROBOT", **allowed)
    async with (
        serving_site({"/": http_response(200)}) as there,
        effect_asker(memory, [adapter({"ROBOT": CANARY})], {}, manifest=rules) as a,
    ):
        result = await fetch(a, there.port)
        assert result["payload"].get("code") == code
        assert len(there.asked) == (code is None)


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (("env:ROBOT",), None),
        (("env:ELSEWHERE", "env:ROBOT"), None),
        (("env:ELSEWHERE",), "secret_unavailable"),
        ((), "secret_unavailable"),
    ],
)
async def test_an_open_effect_gets_it_only_as_the_manifest_in_force_binds_it(
    memory: MemoryStore, now: tuple[str, ...], code: str | None
) -> None:
    async with serving_site({"/": http_response(200)}) as there:
        url = f"http://127.0.0.1:{there.port}/"
        async with effect_asker(memory, [], {}, manifest=manifest("env:ROBOT"), perform=False) as asker:
            await asker.submit_request("http.request", method="GET", url=url, headers={"x": ROBOT})
        async with effect_asker(memory, [adapter({"ROBOT": CANARY})], {}, manifest=manifest(*now)) as asker:
            await asker.host.settle()
            assert asker.outcome()["payload"].get("code") == code


async def test_a_secret_declared_later_is_not_used_by_an_effect_that_began_before(memory: MemoryStore) -> None:
    await interrupt_effect(
        memory, {"http.out": GRANT}, "http.request", method="GET", url="http://a/", headers={"x": ROBOT}
    )
    async with effect_asker(memory, [adapter({"ROBOT": CANARY})], {}, manifest=manifest("env:ROBOT")) as asker:
        await asker.host.settle()
        assert asker.outcome()["payload"]["code"] == "secret_unavailable"


async def test_an_effect_has_no_outcome_while_the_digest_key_can_not_be_stored(memory: MemoryStore) -> None:
    full = True

    def key() -> bytes:
        if full:
            raise Unavailable("The disk is full.", code="disk_full")
        return KEY

    tools = [HttpRequests(Secrets({"ROBOT": CANARY}, digest_key=key), FixedClock(START_NS, SECOND))]
    async with serving_site({"/": http_response(200)}) as there:
        with pytest.raises(Unavailable, match="disk is full"):
            async with effect_asker(memory, tools, {}, manifest=manifest("env:ROBOT")) as asker:
                await fetch(asker, there.port)
        assert there.asked == []
        full = False
        async with effect_asker(memory, tools, {}, manifest=manifest("env:ROBOT")) as asker:
            await asker.host.settle()
            assert asker.outcome()["status"] == "ok"
            assert len(secrets_in_receipts(asker)) == 1
