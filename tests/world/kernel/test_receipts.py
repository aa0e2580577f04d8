"""What came of an effect, as the event in which the module that asked hears of it, field by field."""

from __future__ import annotations

from tests.world.reducer_effects import ANY, FAILED, TYPED, effect_requesting_manifest
from tests.world.small_world import ROOM, echo_result, room_reducer, small_manifest

from demiurge.values import cbor
from demiurge.world.effect import failed, succeeded
from demiurge.world.kernel.receipts import receipt_event
from demiurge.world.manifest import ModuleType

GONE = {"code": "gone", "message": "It is gone."}


def room_module(**arms: object) -> ModuleType:
    return effect_requesting_manifest(room_reducer, arms=arms, check=False).modules[ROOM]


def test_a_kind_with_a_type_of_its_own_brings_its_payload_as_it_is() -> None:
    event = receipt_event(room_module(**TYPED, **ANY), b"i", "timer.set", "k", succeeded(delivered_at_ns=8, key=None))
    payload = {"delivered_at_ns": 8, "key": None}
    value = {"intent": b"i", "key": "k", "status": "ok", "error": None, "payload": payload}
    assert event == {"$tag": "TimerFired", "$value": value}


def test_a_failure_of_such_a_kind_brings_its_error_and_no_payload() -> None:
    event = receipt_event(room_module(**TYPED, **ANY), b"i", "blob.get", "k", failed(**GONE))
    value = {"intent": b"i", "key": "k", "status": "error", "error": GONE, "payload": None}
    assert event == {"$tag": "BlobGetResult", "$value": value}


def test_an_effect_of_another_kind_has_its_name_and_its_payload_in_canonical_bytes() -> None:
    event = receipt_event(room_module(**TYPED, **ANY), b"i", "ex.own", "k", echo_result("hi"))
    payload = cbor.encode({"text": "hi", "blob": None})
    value = {"intent": b"i", "key": "k", "status": "ok", "error": None, "kind": "ex.own", "payload": payload}
    assert event == {"$tag": "Came", "$value": value}


def test_a_failure_of_any_other_kind_brings_its_error_and_no_payload() -> None:
    for kind in ("ex.own", "timer.set"):
        event = receipt_event(room_module(**ANY), b"i", kind, "k", failed(**GONE))
        value = {"intent": b"i", "key": "k", "status": "error", "error": GONE, "kind": kind, "payload": None}
        assert event == {"$tag": "Came", "$value": value}


def test_a_module_without_a_variant_for_the_result_is_not_told() -> None:
    assert receipt_event(room_module(**FAILED), b"i", "timer.set", "k", failed(**GONE)) is None
    assert receipt_event(small_manifest().modules[ROOM], b"i", "ex.own", "k", echo_result("hi")) is None
