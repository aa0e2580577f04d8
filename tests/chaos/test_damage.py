"""One byte of a world's files changes: verifying names the record, reading it fails, the rest of the world works."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.killed_agent import open_world, script
from tests.chaos.outside_observer import Outside
from tests.chaos.test_full_disk import approve_all

from demiurge.bootstrap import World
from demiurge.errors import Damaged, DemiurgeError
from demiurge.values import canonical_json
from demiurge.world.manifest_log import MANIFESTS
from demiurge.world.record import Record

ANNA, BEN = "demiurge/Demiurge@1/anna", "demiurge/Demiurge@1/ben"


def damage(folder: Path, data: bytes) -> None:
    """Change one byte of a record or a blob where it lies: in the database behind its hash, or in a file of its own."""
    digest = hashlib.sha256(data).digest()
    file = folder / "blobs" / "sha256" / digest.hex()[:2] / digest.hex()
    path, place, at = (file, data, 40) if file.exists() else (folder / "journal.db", digest + data[:60], 72)
    content = bytearray(path.read_bytes())
    assert content.count(place) == 1
    content[content.index(place) + at] ^= 1
    path.write_bytes(content)


async def make(folder: Path, outside: Outside, *, finish: bool = True) -> None:
    """Two chats, a turn each; anna's is left waiting for a person unless it shall be finished."""
    outside.pause_s = 0.0
    async with open_world(folder, outside.url) as world:
        for name in ("anna", "ben"):
            chat = world.chat(name)
            reply = await chat.send(script(0, name, 1))
            if finish or name == "ben":
                reply = await approve_all(chat, reply)
                assert reply.status == "done"


async def records(folder: Path, outside: Outside) -> dict[str, list[Record]]:
    async with open_world(folder, outside.url) as world:
        return {unit: list(world.journal.read(unit)) for unit in (ANNA, BEN)}


async def blob(folder: Path, outside: Outside, wanted: Callable[[Record, bytes], bool]) -> tuple[Record, bytes]:
    """The first blob of anna's journal that is `wanted`, with its record."""
    async with open_world(folder, outside.url) as world:
        for record in world.journal.read(ANNA):
            for ref in record.refs:
                if wanted(record, data := world.blobs.get(ref)):
                    return record, data
    raise AssertionError("there is none")


async def ben_goes_on(world: World) -> None:
    chat = world.chat("ben")
    assert (await approve_all(chat, await chat.send(script(0, "ben", 2)))).status == "done"


@pytest.mark.parametrize("finish", [True, False])
@pytest.mark.parametrize("which", [0, 0.5, 1])
async def test_a_flipped_byte_of_a_record(which: float, finish: bool, outside: Outside, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    await make(folder, outside, finish=finish)
    found = (await records(folder, outside))[ANNA]
    damaged = found[round(which * (len(found) - 1))]
    damage(folder, damaged.data)
    async with open_world(folder, outside.url) as world:
        verified = world.journal.verify()
        assert not verified.ok
        assert f"ecord {damaged.unit_seq} of unit {ANNA} is damaged" in str(verified.problem)
        with pytest.raises(Damaged, match=f"ecord {damaged.unit_seq} of unit {ANNA} is damaged"):
            await world.replay()
        with pytest.raises(Damaged, match=f"ecord {damaged.unit_seq} of unit {ANNA} is damaged"):
            await world.chat("anna").send("hello?")
        await ben_goes_on(world)
        if not finish:
            await world.settle()
            assert any(ANNA in notice for notice in (await world.info())["notices"])


async def test_a_flipped_byte_of_a_short_blob_that_replay_reads(outside: Outside, tmp_path: Path) -> None:
    """The call of a tool that a person is asked about is read by the kernel."""
    folder = tmp_path / "world"
    await make(folder, outside)
    record, data = await blob(folder, outside, lambda _record, data: data.startswith(b'{"arguments_json"'))
    damage(folder, data)
    async with open_world(folder, outside.url) as world:
        verified = world.journal.verify()
        assert f"record {ANNA} {record.unit_seq} " in str(verified.problem)
        with pytest.raises(Damaged, match="Blob sha256:"):
            await world.replay()
        with pytest.raises(Damaged, match="Blob sha256:"):
            await world.chat("anna").send("hello?")
        await ben_goes_on(world)


async def test_a_flipped_byte_of_a_short_blob_that_only_people_read(outside: Outside, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    await make(folder, outside)
    record, data = await blob(folder, outside, lambda _record, data: len(data) < 4096 and b'"role":"assistant"' in data)
    damage(folder, data)
    async with open_world(folder, outside.url) as world:
        assert f"record {ANNA} {record.unit_seq} " in str(world.journal.verify().problem)
        await world.replay()
        with pytest.raises(Damaged, match="Blob sha256:"):
            await world.chat("anna").messages()
        reply = await world.chat("anna").send("hello?")
        assert reply.status == "failed"
        assert reply.error_code == "damaged"
        await ben_goes_on(world)


async def test_a_flipped_byte_of_a_blob_file(outside: Outside, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    await make(folder, outside)
    record, data = await blob(
        folder, outside, lambda _record, data: len(data) > 16384 and b'"role":"assistant"' in data
    )
    damage(folder, data)
    async with open_world(folder, outside.url) as world:
        assert f"record {ANNA} {record.unit_seq} " in str(world.journal.verify().problem)
        with pytest.raises(Damaged, match="Blob sha256:"):
            await world.chat("anna").messages()
        await ben_goes_on(world)


async def test_a_flipped_byte_of_the_manifest(outside: Outside, tmp_path: Path) -> None:
    """The one in force is at hand, so it is put again; nothing is lost."""
    folder = tmp_path / "world"
    await make(folder, outside)
    _, data = await blob(folder, outside, lambda record, data: record.kind == "manifest" and b"tool_policy" in data)
    damage(folder, data)
    async with open_world(folder, outside.url) as world:
        assert f"record {MANIFESTS} 0 " in str(world.journal.verify().problem), "the first that names it"
        await ben_goes_on(world)
        assert world.journal.verify().ok
        await world.replay()


async def test_a_missing_blob_file(outside: Outside, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    await make(folder, outside)
    record, data = await blob(
        folder, outside, lambda _record, data: len(data) > 16384 and b'"role":"assistant"' in data
    )
    name = hashlib.sha256(data).hexdigest()
    (folder / "blobs" / "sha256" / name[:2] / name).unlink()
    async with open_world(folder, outside.url) as world:
        assert f"record {ANNA} {record.unit_seq} " in str(world.journal.verify().problem)
        with pytest.raises(DemiurgeError, match="There is no blob"):
            await world.chat("anna").messages()
        await ben_goes_on(world)
    assert canonical_json.parse_object(data)["role"] == "assistant"
