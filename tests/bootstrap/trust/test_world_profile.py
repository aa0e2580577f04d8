"""What is remembered of a world is changed under its lock, and no record outlives its world for nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demiurge.bootstrap.chat_address import address_of_chat, with_address
from demiurge.bootstrap.trust.adoption import Adoption
from demiurge.bootstrap.trust.local_approvals import LocalApprovals
from demiurge.bootstrap.trust.trusted_code import TrustedCode
from demiurge.bootstrap.trust.world_profile import LOOKED_AT, NotRecalled, WorldProfile, forget, recall, remember
from demiurge.values.caller import Caller
from demiurge.values.refs import ref_of
from demiurge.world.reducer import Reducer, Step
from demiurge.world.state import OpenIntent

MANY = 16
EMPTY = ref_of(b"")


@pytest.fixture
def mine(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "mine")}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def code(name: str) -> Reducer:
    return Reducer(lambda _state, _event, _context: Step(), name.encode())


def records(mine: dict[str, str]) -> list[Path]:
    return sorted(Path(mine["HOME"], ".config/demiurge/worlds").glob("*.json"))


def intent(number: int) -> OpenIntent:
    asked = {"tool": "ring", "call": number}
    origin = {"kind": "plan", "name": "p@1", "id": 1}
    return OpenIntent(
        number.to_bytes(32, "big"), 0, "tool.call", {}, "g", origin, Caller("user"), EMPTY, approval=asked
    )


def at_once(work: Any) -> list[Any]:
    with ThreadPoolExecutor(MANY) as pool:
        return list(pool.map(work, range(MANY)))


def test_approvals_that_are_noted_at_once_are_all_kept(mine: dict[str, str], world: Path) -> None:
    noting = LocalApprovals(mine, world)
    assert at_once(lambda number: noting.add(intent(number))) == [None] * MANY
    assert all(LocalApprovals(mine, world).holds(intent(number)) for number in range(MANY))


def test_code_that_is_noted_at_once_is_all_kept(mine: dict[str, str], world: Path) -> None:
    at_once(lambda number: TrustedCode(mine, world).add([code(str(number))]))
    assert all(TrustedCode(mine, world).holds(ref_of(str(number).encode())) for number in range(MANY))


def test_addresses_that_are_kept_at_once_are_all_kept(mine: dict[str, str], world: Path) -> None:
    def keep(number: int) -> None:
        def change(kept: WorldProfile) -> WorldProfile:
            return replace(kept, addresses=with_address(kept.addresses, f"c{number}", "local", "http://a"))

        remember(mine, world, change)

    at_once(keep)
    kept = recall(mine, world)
    assert kept is not None
    assert all(address_of_chat(kept.addresses, f"c{number}") is not None for number in range(MANY))


CHILD = """
import sys
from dataclasses import replace
from pathlib import Path
from demiurge.bootstrap.trust.world_profile import remember

mine, world, mark = {"HOME": sys.argv[1]}, Path(sys.argv[2]), sys.argv[3]
for number in range(10):
    remember(mine, world, lambda kept: replace(kept, code=(*kept.code, f"{mark}{number}")))
"""


def test_code_that_two_processes_record_at_once_is_all_kept(mine: dict[str, str], world: Path) -> None:
    command = [sys.executable, "-c", CHILD, mine["HOME"], str(world)]
    children = [subprocess.Popen([*command, mark]) for mark in "ab"]
    assert [child.wait(60) for child in children] == [0, 0]
    kept = recall(mine, world)
    assert kept is not None
    assert sorted(kept.code) == sorted(f"{mark}{number}" for mark in "ab" for number in range(10))


def test_an_unchanged_profile_is_not_written(mine: dict[str, str], world: Path) -> None:
    assert remember(mine, world, lambda kept: kept) == WorldProfile()
    assert records(mine) == []


def test_code_digests_of_a_deleted_world_are_dropped(mine: dict[str, str], world: Path, tmp_path: Path) -> None:
    for name in ("gone", "here"):
        (tmp_path / name).mkdir()
        TrustedCode(mine, tmp_path / name).add([code(name)])
    shutil.rmtree(tmp_path / "gone")
    TrustedCode(mine, world).add([code("w")])
    assert len(records(mine)) == 2
    assert TrustedCode(mine, tmp_path / "here").holds(ref_of(b"here"))
    assert TrustedCode(mine, world).holds(ref_of(b"w"))


CHOSEN: list[dict[str, Any]] = [
    {"folders": ("/x",), "tools": ("my_tools",)},
    {"policy": "/p.toml"},
    {"manifest": str(EMPTY)},
    {"approved": ("0a",)},
    {"addresses": with_address((), "main", "local", "http://a")},
]


@pytest.mark.parametrize("chosen", CHOSEN, ids=lambda chosen: max(chosen))
def test_decisions_about_a_world_on_an_unmounted_disk_are_kept(
    chosen: dict[str, Any], mine: dict[str, str], world: Path, tmp_path: Path
) -> None:
    away = tmp_path / "disk/w"
    away.mkdir(parents=True)
    remember(mine, away, lambda kept: replace(kept, code=("c",), **chosen))
    (tmp_path / "disk").rename(tmp_path / "unmounted")
    TrustedCode(mine, world).add([code("w")])
    (tmp_path / "unmounted").rename(tmp_path / "disk")
    assert recall(mine, away) == WorldProfile(code=("c",), **chosen)


def test_a_write_looks_at_a_few_records_and_takes_no_offence(mine: dict[str, str], world: Path, tmp_path: Path) -> None:
    for number in range(LOOKED_AT + 8):
        (tmp_path / f"{number}").mkdir()
        TrustedCode(mine, tmp_path / f"{number}").add([code("c")])
    for path in records(mine)[:2]:
        path.write_text("damaged")
    for number in range(LOOKED_AT + 8):
        shutil.rmtree(tmp_path / f"{number}")
    TrustedCode(mine, world).add([code("w")])
    assert TrustedCode(mine, world).holds(ref_of(b"w"))
    left = len(records(mine)) - 1
    assert left <= 10
    assert left >= 8


def test_forgetting_keeps_what_is_no_tool_and_no_policy(mine: dict[str, str], world: Path) -> None:
    remember(mine, world, lambda kept: replace(kept, tools=("t",), policy="/p"))
    forget(mine, world)
    assert records(mine) == []
    remember(mine, world, lambda kept: replace(kept, tools=("t",), policy="/p"))
    assert Adoption(mine, world).take(str(EMPTY)) is None
    forget(mine, world)
    assert recall(mine, world) == WorldProfile(manifest=str(EMPTY))


def test_a_world_remade_elsewhere_is_refused_only_if_tools_or_a_policy_were_remembered(
    mine: dict[str, str], world: Path
) -> None:
    """For instance by a program that opens it with an environment that names no home folder."""

    def remade() -> None:
        shutil.rmtree(world)
        world.mkdir()
        (world / "journal.db").touch()

    for chosen in CHOSEN:
        remember(mine, world, lambda kept, chosen=chosen: replace(kept, **chosen))  # type: ignore[misc]
        remade()
        if {"tools", "policy"} & set(chosen):
            with pytest.raises(NotRecalled):
                recall(mine, world)
            forget(mine, world)
        else:
            assert recall(mine, world) is None
