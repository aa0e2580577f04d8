"""A world looking at itself: what a receipt names, and what it does not show."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest
from tests.world.effects.effect_asker import Asker, effect_asker, interrupt_effect
from tests.world.small_world import ROOM, A, ScriptedModel, call_answer, chat_world, text_answer

from demiurge.stores import MemoryStore, Store
from demiurge.stores.protocol import Batch, Row
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import Ref, ref_from_digest
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.introspect import Introspect
from demiurge.world.unit import Unit

GRANTS: dict[str, dict[str, Any]] = {"query": {}, "blob": {}}


async def make_rooms(asker: Asker, *keys: str) -> None:
    for key in keys:
        await asker.host.submit("ex/Poke@1", {"room": key, "what": '{"kind": "blob.get", "params": {"blob_ref": ""}}'})
    await asker.host.settle()


def parsed_blob(asker: Asker, ref: str) -> Any:
    return canonical_json.parse(asker.host.get_blob(Ref(ref)))


async def test_the_head_of_the_unit_that_asks(store: Store) -> None:
    async with effect_asker(store, [Introspect()], GRANTS) as asker:
        found = await asker.payload("introspect.journal_head")
        intent = asker.records_of("intent")[0]
        assert found["head"] == ref_from_digest(intent.hash)
        assert found["manifest_ref"] == asker.host.manifest.ref
        reading = found["reading"]
        assert (reading["unit"], reading["unit_seq"]) == (str(A), intent.unit_seq + 1)
        assert cbor.decode(asker.host.get_blob(Ref(reading["state_hash"])))["n"] == 1
        assert [state.seq for state in asker.host.replay()]


async def test_the_head_of_another_unit_and_of_one_that_never_was(memory: MemoryStore) -> None:
    async with effect_asker(memory, [Introspect(), BlobEffects()], GRANTS) as asker:
        await make_rooms(asker, "b")
        last = list(asker.host.records(Unit(ROOM, "b")))[-1]
        found = await asker.payload("introspect.journal_head", module=ROOM, key="b")
        assert (found["head"], found["reading"]["unit_seq"]) == (ref_from_digest(last.hash), last.unit_seq + 1)
        nothing = await asker.payload("introspect.journal_head", module=ROOM, key="nobody")
        assert nothing["reading"] == {"unit": f"{ROOM}/nobody", "unit_seq": 0, "state_hash": None}
        assert await asker.code("introspect.journal_head", module="ex/None@1") == "not_found"


async def test_cells_are_listed_page_by_page_with_what_was_read(store: Store) -> None:
    async with effect_asker(store, [Introspect(), BlobEffects()], GRANTS) as asker:
        await make_rooms(asker, "b", "c", "d")
        first = await asker.payload("introspect.list_cells", module=ROOM, limit=3)
        second = await asker.payload("introspect.list_cells", module=ROOM, limit=3, cursor=first["next_cursor"])
        cells = [*first["cells"], *second["cells"]]
        assert [cell["key"] for cell in cells] == ["a", "b", "c", "d"]
        assert (first["next_cursor"], second["next_cursor"]) == ("c", None)
        for cell in cells[1:]:
            state = asker.host.state(Unit(ROOM, cell["key"]))
            assert cell["reading"]["unit"] == f"{ROOM}/{cell['key']}"
            assert cell["reading"]["unit_seq"] == state.seq
            assert cell["reading"]["state_hash"] is not None
            assert cell["problem"] is None
        assert await asker.code("introspect.list_cells", module="ex/None@1") == "not_found"
        assert await asker.payload("introspect.list_cells", module="ex/Board@1") == {"cells": [], "next_cursor": None}


async def test_to_be_told_of_a_cell_is_not_to_be_shown_it(memory: MemoryStore) -> None:
    async with effect_asker(memory, [Introspect(), BlobEffects()], GRANTS) as asker:
        await make_rooms(asker, "b")
        [_, cell] = (await asker.payload("introspect.list_cells", module=ROOM))["cells"]
        assert memory.has_blob(cell["reading"]["state_hash"])
        assert await asker.code("blob.get", blob_ref=cell["reading"]["state_hash"]) == "not_found"
        shown = await asker.payload("introspect.state", module=ROOM, key="b")
        assert (await asker.payload("blob.get", blob_ref=shown["state_ref"]))["size"] > 0


async def test_a_unit_that_can_not_be_read_is_listed_with_its_problem(memory: MemoryStore) -> None:
    async with effect_asker(memory, [Introspect(), BlobEffects()], GRANTS) as asker:
        await make_rooms(asker, "c")
        unit, data = f"{ROOM}/b", b"no record"
        memory.append([Batch(unit, 0, (Row(unit, 0, "event", sha256(data).digest(), data, "i"),), open=False)])
        found = await asker.payload("introspect.list_cells", module=ROOM)
        assert [(cell["key"], cell["problem"]) for cell in found["cells"]] == [
            ("a", None),
            ("b", "damaged"),
            ("c", None),
        ]


async def test_a_cell_that_was_deleted_is_not_listed(memory: MemoryStore) -> None:
    async with effect_asker(memory, [Introspect(), BlobEffects()], GRANTS) as asker:
        await make_rooms(asker, "b", "c")
        await asker.host.submit("ex/Poke@1", {"room": "b", "what": "null"})
        found = await asker.payload("introspect.list_cells", module=ROOM)
        assert [cell["key"] for cell in found["cells"]] == ["a", "c"]


async def test_schemas_are_shown_by_prefix_with_the_manifest_they_stand_in(memory: MemoryStore) -> None:
    async with effect_asker(memory, [Introspect()], GRANTS) as asker:
        found = await asker.payload("introspect.schemas", prefix="ex/Board")
        assert parsed_blob(asker, found["schemas_ref"]) == {
            "ex/BoardEv@1": {"variant": {"Note": {"ref": "ex/Note@1"}}},
            "ex/BoardState@1": {"record": {"notes": {"list": {"text": {}}}}},
        }
        assert (found["count"], found["manifest_ref"]) == (2, asker.host.manifest.ref)
        everything = await asker.payload("introspect.schemas")
        assert everything["count"] == len(asker.host.manifest.schemas.names)
        assert (await asker.payload("introspect.schemas", prefix="none/"))["count"] == 0


async def test_a_module_is_shown_with_the_source_it_is_pinned_to(memory: MemoryStore) -> None:
    async with effect_asker(memory, [Introspect()], GRANTS) as asker:
        found = await asker.payload("introspect.module", name="ex/Board@1")
        assert parsed_blob(asker, found["module_ref"]) == {
            "name": "ex/Board@1",
            "state": "ex/BoardState@1",
            "event": "ex/BoardEv@1",
            "key_schema": "ex/Name@1",
            "arms": {"Note": "ex/Note@1"},
            "source": asker.host.manifest.sources["ex/Board@1"],
            "is_pinned_source": True,
        }
        assert found["manifest_ref"] == asker.host.manifest.ref
        assert await asker.code("introspect.module", name="ex/None@1") == "not_found"


@pytest.mark.parametrize(
    ("kind", "params"),
    [("introspect.journal_head", {}), ("introspect.list_cells", {"module": ROOM}), ("introspect.schemas", {})],
)
async def test_a_look_that_was_interrupted_is_taken_again(memory: MemoryStore, kind: str, params: Any) -> None:
    await interrupt_effect(memory, GRANTS, kind, **params)
    async with effect_asker(memory, [Introspect()], GRANTS) as asker:
        await asker.host.settle()
        assert asker.outcome()["status"] == "ok"


async def test_the_shipped_tools_show_schemas_and_modules_to_a_model(memory: MemoryStore) -> None:
    script = ScriptedModel(
        call_answer(
            ("c1", "introspect__schemas", {"prefix": "sys/Workspace"}),
            ("c2", "introspect__module", {"name": "demiurge/Demiurge@1"}),
            ("c3", "introspect__schemas", {}),
            ("c4", "introspect__module", {"name": "demiurge/None@1"}),
        ),
        text_answer("ok"),
    )
    async with chat_world(memory, script) as talk:
        await talk.say("look")
        schemas, module, names, missing = [output["content"] for output in talk.outputs()]
        assert '"sys/WorkspaceName@1":{"text":{}}' in schemas
        assert '"state":"demiurge/ChatState@1"' in module
        assert '"names":["demiurge/' in names
        assert '"types"' not in names
        assert "There is no module demiurge/None@1." in missing
        [receipt] = talk.receipts("introspect.module")[:1]
        assert receipt["payload"]["manifest_ref"] == talk.host.manifest.ref


async def test_schemas_are_listed_by_prefix_and_a_module_is_shown_by_name(memory: MemoryStore) -> None:
    async with effect_asker(memory, [Introspect()], {"query": {}}) as asker:
        listed = await asker.payload("introspect.schemas", prefix="ex/Poke")
        shown = await asker.payload("introspect.module", name=ROOM)
        schemas = canonical_json.parse_object(asker.host.get_blob(listed["schemas_ref"]))
        module = canonical_json.parse_object(asker.host.get_blob(shown["module_ref"]))
        assert listed["manifest_ref"] == shown["manifest_ref"] == asker.host.manifest.ref
    assert list(schemas) == ["ex/Poke@1"]
    assert (module["name"], module["event"]) == (ROOM, "ex/Ev@1")
