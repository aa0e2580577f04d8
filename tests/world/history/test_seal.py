"""Seals: kept elsewhere, they tell whether a journal was rewritten; proofs under them need nothing else."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from tests.world.small_world import EchoAdapter, poke_event, running_host, small_manifest

from demiurge.errors import Conflict, InvalidValue, NotFound
from demiurge.stores import Batch, MemoryStore, Row, Store
from demiurge.stores.merkle import leaf_hash
from demiurge.world.history.seal import Proof, Seal, prove, sealed
from demiurge.world.history.verify import verify
from demiurge.world.record import decode_record


def rows(unit: str, count: int) -> tuple[Row, ...]:
    datas = [f"{unit} {seq}".encode() for seq in range(count)]
    return tuple(Row(unit, seq, "event", sha256(data).digest(), data) for seq, data in enumerate(datas))


async def filled(store: Store, events: int = 6) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(events):
            await host.submit("ex/Ev@1", poke_event(str(number), f"r{number % 2}"))


async def test_a_world_that_grew_holds_every_seal_it_had_without_being_read(store: Store) -> None:
    seals = [sealed(store)]
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(20):
            await host.submit("ex/Ev@1", poke_event(str(number), f"r{number % 3}"))
            seals.append(sealed(store))
    assert len({*seals}) == 21
    for seal in seals:
        assert sealed(store, seal.size) == seal
        assert verify(store, str(seal)).ok
    assert verify(store).seal == str(seals[-1])


async def test_a_shorter_a_reordered_and_a_rewritten_journal_do_not_hold_it(store: Store) -> None:
    first, second = rows("a", 3), rows("b", 3)
    for row in (*first, *second):
        store.append([Batch(row.unit, row.unit_seq, (row,), False)])
    seal = sealed(store)
    others = {
        "shorter": (*first, *second[:2]),
        "reordered": (*first[:2], second[0], first[2], *second[1:]),
        "other": (*first, *second[:2], replace(second[2], data=b"x", hash=sha256(b"x").digest())),
    }
    for name, found in others.items():
        other = MemoryStore("world_1")
        for row in found:
            other.append([Batch(row.unit, row.unit_seq, (row,), False)])
        if other.length() == seal.size:
            assert sealed(other, seal.size) != seal, name
        else:
            with pytest.raises(NotFound):
                sealed(other, seal.size)


@pytest.mark.parametrize(
    "text", ["", "5", "-", "05-" + "0" * 64, "5-" + "0" * 63, "5-" + "G" * 64, "sha256:" + "0" * 64]
)
async def test_a_value_that_is_no_seal_is_not_one_that_a_world_had(text: str, memory: MemoryStore) -> None:
    with pytest.raises(InvalidValue) as caught:
        Seal.parse(text)
    assert caught.value.code == "invalid_seal"
    await filled(memory, 1)
    assert not verify(memory, text).sealed


async def test_a_journal_that_was_rewritten_after_it_was_sealed_is_found_when_it_is_verified(
    memory: MemoryStore,
) -> None:
    """Also without a seal from elsewhere: what is kept of the tree is of other records."""
    async with running_host(memory, small_manifest(), [EchoAdapter()]) as host:
        for number in range(130):
            await host.submit("ex/Ev@1", poke_event(str(number)))
    assert memory.length() > 256
    sealed(memory)
    assert verify(memory).ok
    memory.keep_tiles(8, 0, [leaf_hash(b"of something else")])
    assert "position 1 to 256" in (verify(memory).problem or "")


class TestProofs:
    async def test_a_proof_shows_a_record_to_whoever_has_the_seal_alone(self, store: Store) -> None:
        await filled(store)
        seal = sealed(store)
        await filled(store, 0)
        for row in store.read_all():
            proof = Proof.from_json(prove(store, row.position, seal).to_json())
            assert proof.holds()
            assert (proof.seal, proof.position) == (seal, row.position)
            assert decode_record(proof.data).hash == row.hash

    async def test_under_an_older_seal_what_came_later_is_not(self, memory: MemoryStore) -> None:
        await filled(memory)
        size = memory.length() // 2
        assert prove(memory, size, sealed(memory, size)).holds()
        with pytest.raises(NotFound):
            prove(memory, size + 1, sealed(memory, size))

    async def test_a_changed_proof_does_not_hold(self, memory: MemoryStore) -> None:
        await filled(memory)
        proof = prove(memory, 3)
        for changed in (
            replace(proof, position=4),
            replace(proof, data=proof.data + b"\0"),
            replace(proof, path=proof.path[:-1]),
            replace(proof, path=(bytes(32), *proof.path[1:])),
            replace(proof, seal=Seal(proof.seal.size, bytes(32))),
            replace(proof, seal=Seal(0, proof.seal.root)),
        ):
            assert not changed.holds()

    async def test_a_seal_of_another_world_proves_nothing(self, memory: MemoryStore) -> None:
        await filled(memory)
        for size in (3, 10_000):
            with pytest.raises(Conflict) as caught:
                prove(memory, 2, Seal(size, bytes(32)))
            assert caught.value.code == "seal"

    @pytest.mark.parametrize(
        "change",
        [
            {"position": "1"},
            {"position": True},
            {"seal": "x"},
            {"seal": 1},
            {"path": ["zz"]},
            {"path": 5},
            {"path": ["00"] * 65},
            {"cbor": "***"},
            {"cbor": None},
        ],
    )
    async def test_a_value_that_is_no_proof_is_refused(self, change: dict[str, Any], memory: MemoryStore) -> None:
        await filled(memory, 1)
        with pytest.raises(InvalidValue) as caught:
            Proof.from_json(prove(memory, 1).to_json() | change)
        assert caught.value.code in ("invalid_proof", "invalid_seal")
        with pytest.raises(InvalidValue):
            Proof.from_json({})
