"""`demiurge erase`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

CANARY = b"quokka 4711, seen once"


@pytest.fixture
def ref(demiurge: Run) -> str:
    found: str = demiurge("blob", "put", "@-", stdin=CANARY).document["hash"]
    return found


def test_the_bytes_are_gone_and_it_is_recorded(demiurge: Run, ref: str, world: Path) -> None:
    done = demiurge("erase", ref, "--why", "asked to", "--json")
    expected = {
        "refs": [ref],
        "shared": [],
        "size": len(CANARY),
        "records": 0,
        "units": [],
        "unchecked": [],
        "done": True,
    }
    expected |= {"copies": [], "shared": [], "quotes": [], "inline": [], "lines": 0, "sessions": []}
    assert done.document == expected
    assert [path for path in world.rglob("*") if path.is_file() and CANARY in path.read_bytes()] == []
    got = demiurge("blob", "get", ref, "--json")
    assert (got.status, got.document["error"]["code"]) == (1, "erased")
    assert "was erased" in demiurge("blob", "get", ref).err
    records = demiurge("journal", "tail", "--json").document["records"]
    (record,) = [record for record in records if record["kind"] == "erased"]
    assert (record["body"]["ref"], record["body"]["why"]) == (ref, "asked to")
    assert demiurge("journal", "verify").status == 0
    assert demiurge("replay").status == 0


def test_a_dry_run_leaves_it(demiurge: Run, ref: str) -> None:
    done = demiurge("erase", ref, "--why", "asked to", "--dry-run")
    assert done.out == f"Would erase {ref} ({len(CANARY)} bytes), which 0 records name.\n"
    assert demiurge("blob", "stat", ref).status == 0


def test_an_erased_blob_is_put_again_only_by_force(demiurge: Run, ref: str) -> None:
    demiurge("erase", ref, "--why", "asked to")
    again = demiurge("blob", "put", "@-", "--json", stdin=CANARY)
    assert (again.status, again.document["error"]["code"]) == (1, "erased")
    assert demiurge("blob", "put", "@-", "--force", stdin=CANARY).document["hash"] == ref
    assert demiurge("blob", "stat", ref).status == 0
    assert demiurge("blob", "put", "@-", stdin=CANARY).status == 0, "it is there"


def test_a_reason_is_needed(demiurge: Run, ref: str) -> None:
    assert demiurge("erase", ref).status == 2
    assert demiurge("erase", ref, "--why", " ").status == 2
    assert demiurge("erase", "nonsense", "--why", "x", "--json").document["error"]["code"] == "invalid_ref"


def test_a_chat_with_an_erased_message_verifies_replays_and_goes_on(demiurge: Run, provider: Any) -> None:
    provider.say(provider.answer(provider.text("Hello!")))
    assert demiurge("chat", "-m", "my secret words").status == 0
    exported = demiurge("journal", "export", "--json").document["records"]
    message = next(
        record["body"]["value"]["$value"]["message_ref"]
        for record in exported
        if record["kind"] == "event" and record["body"]["value"].get("$tag") == "UserMessage"
    )
    done = demiurge("erase", message, "--why", "asked to", "--json").document
    assert done["records"] > 0
    assert done["units"] == ["demiurge/Demiurge@1/main", "demiurge/Titles@1/main"]
    found = demiurge("journal", "verify").document
    assert (found["ok"], found["erased"]) == (True, 1)
    replayed = demiurge("replay").document
    assert replayed["ok"]
    provider.say(provider.answer(provider.text("Still here.")))
    assert demiurge("chat", "-m", "And now?").status == 0
