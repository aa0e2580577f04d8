"""`blob.put` and `blob.get`: who was given a blob may read it, and knowing its name gives nothing."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.world.effects.effect_asker import effect_asker, interrupt_effect
from tests.world.small_world import A

from demiurge.stores import MemoryStore, Store
from demiurge.values.refs import Ref, ref_of
from demiurge.world.blob_access import PAGE, granting_records
from demiurge.world.effect_kinds.blob import INLINE_BYTES
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.history.verify import verify
from demiurge.world.unit import Unit

GRANTS: dict[str, dict[str, Any]] = {"blob": {}}


def inline(data: bytes) -> dict[str, Any]:
    return {"$tag": "bytes", "$value": b64encode(data).decode()}


def by_ref(ref: str) -> dict[str, Any]:
    return {"$tag": "ref", "$value": ref}


async def test_a_stored_blob_can_be_read_whole_and_in_parts(store: Store) -> None:
    async with effect_asker(store, [BlobEffects()], GRANTS) as asker:
        put = await asker.payload("blob.put", content=inline(b"hello"))
        assert put == {"blob_ref": ref_of(b"hello"), "size": 5}
        got = await asker.payload("blob.get", blob_ref=put["blob_ref"])
        assert got == {"blob_ref": put["blob_ref"], "size": 5, "bytes": b"hello"}
        part = await asker.payload("blob.get", blob_ref=put["blob_ref"], range={"start": 1, "end": 3})
        assert (part["bytes"], part["size"]) == (b"el", 5)
        assert verify(store).ok
        assert [state.seq for state in asker.host.replay()]


async def test_bytes_that_do_not_have_the_address_they_should_are_not_stored(memory: MemoryStore) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        assert await asker.code("blob.put", blob_ref=ref_of(b"other"), content=inline(b"these")) == "wrong_ref"
        assert not memory.has_blob(ref_of(b"these"))
        await asker.payload("blob.put", blob_ref=ref_of(b"these"), content=inline(b"these"))


async def test_a_blob_that_an_event_or_a_receipt_shows_may_be_read(memory: MemoryStore) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        shown = await asker.give(b"shown")
        assert (await asker.payload("blob.get", blob_ref=shown))["bytes"] == b"shown"
        assert (await asker.payload("blob.put", content=by_ref(shown)))["size"] == 5


@pytest.mark.parametrize("ask", ["blob.get", "blob.put"])
async def test_a_blob_of_somebody_else_is_as_if_it_were_not_there(store: Store, ask: str) -> None:
    async with effect_asker(store, [BlobEffects()], GRANTS) as asker:
        secret = await asker.host.put_blob(b"secret")
        missing = ref_of(b"missing")
        event = {"$tag": "Given", "$value": {"room": "b", "it": secret}}
        await asker.host.submit("ex/Ev@1", event)

        async def answer(ref: Ref) -> tuple[Any, str]:
            params = {"blob_ref": ref} if ask == "blob.get" else {"content": by_ref(ref)}
            result = await asker.ask(ask, **params)
            return result["status"], str(result["payload"]).replace(ref, "?")

        assert await answer(secret) == await answer(missing)
        assert await answer(secret) == ("error", "{'code': 'not_found', 'message': 'There is no blob ? here.'}")
        assert verify(store).ok, "a record that asks for what is not there is whole"


async def test_asking_again_does_not_make_it_ones_own(memory: MemoryStore) -> None:
    """Neither the intent nor an event that the unit raised itself gives anything."""
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        secret = await asker.host.put_blob(b"secret")
        for _ in range(3):
            assert await asker.code("blob.get", blob_ref=secret) == "not_found"
        assert list(granting_records(memory, A, secret)) == []


@pytest.mark.parametrize("text", ["", "sha256:00", "SHA256:" + "0" * 64, "../etc/passwd", "sha256:" + "g" * 64])
async def test_a_value_that_is_no_address_is_refused(memory: MemoryStore, text: str) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        assert await asker.code("blob.get", blob_ref=text) == "invalid_ref"


@pytest.mark.parametrize("part", [(2, 1), (0, 6), (6, 6)])
async def test_a_range_lies_inside_the_blob(memory: MemoryStore, part: tuple[int, int]) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        ref = await asker.give(b"hello")
        assert await asker.code("blob.get", blob_ref=ref, range={"start": part[0], "end": part[1]}) == "bad_range"


async def test_a_large_blob_is_read_in_parts(memory: MemoryStore) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        ref = await asker.give(b"x" * (INLINE_BYTES + 1))
        assert await asker.code("blob.get", blob_ref=ref) == "too_large"
        whole = {"start": 0, "end": INLINE_BYTES}
        assert len((await asker.payload("blob.get", blob_ref=ref, range=whole))["bytes"]) == INLINE_BYTES
        assert await asker.code("blob.put", content=inline(b"x" * (INLINE_BYTES + 1))) == "too_large"
        assert (await asker.payload("blob.put", content=by_ref(ref)))["size"] == INLINE_BYTES + 1


async def test_a_grant_says_which_way_and_how_much(memory: MemoryStore) -> None:
    async with effect_asker(memory, [BlobEffects()], {"blob": {"ops": ["get"], "max_bytes": 3}}) as asker:
        assert await asker.code("blob.put", content=inline(b"x")) == "op_not_allowed"
        long, short = await asker.give(b"four"), await asker.give(b"one")
        assert await asker.code("blob.get", blob_ref=long) == "too_large"
        assert (await asker.payload("blob.get", blob_ref=short))["size"] == 3
    async with effect_asker(MemoryStore("w"), [BlobEffects()], {"blob": {"max_bytes": 3}}) as asker:
        assert (await asker.ask("blob.put", content=inline(b"four")))["status"] == "denied"
        assert await asker.code("blob.put", content=by_ref(await asker.give(b"four"))) == "too_large"
    async with effect_asker(MemoryStore("w"), [BlobEffects()], {"blob": {"ops": []}}) as asker:
        assert await asker.code("blob.get", blob_ref=ref_of(b"")) == "op_not_allowed"


async def test_a_put_that_was_interrupted_is_done_again(memory: MemoryStore) -> None:
    await interrupt_effect(memory, GRANTS, "blob.put", content=inline(b"hello"))
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        await asker.host.settle()
        assert asker.outcome()["payload"] == {"blob_ref": ref_of(b"hello"), "size": 5}


async def test_a_blob_given_many_records_ago_can_be_read(memory: MemoryStore) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        old = await asker.give(b"old")
        for _ in range(PAGE):
            await asker.give(b"new")
        assert (await asker.payload("blob.get", blob_ref=old))["bytes"] == b"old"
        assert [r.unit_seq for r in granting_records(memory, A, old)][-1] == 0
        assert list(granting_records(memory, Unit(A.module, "nobody"), old)) == []


async def test_the_manifest_that_a_unit_runs_under_may_be_read(memory: MemoryStore) -> None:
    async with effect_asker(memory, [BlobEffects()], GRANTS) as asker:
        ref, whole = asker.host.manifest.ref, len(asker.host.manifest.node)
        assert (await asker.payload("blob.get", blob_ref=ref, range={"start": 0, "end": 1}))["size"] == whole
