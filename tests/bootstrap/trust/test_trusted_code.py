"""Code that a world keeps runs again where its user ran it before, and nowhere else but on request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from demiurge import World
from demiurge.apps.demiurge import CHAT, app
from demiurge.bootstrap.trust.trusted_code import MOST, TrustedCode
from demiurge.bootstrap.trust.world_profile import MARK, forget, recall
from demiurge.errors import Divergence
from demiurge.stores import SqliteStore
from demiurge.values.refs import ref_of
from demiurge.world.history.kept_code import kept_reducer
from demiurge.world.reducer import Reducer, Step

SHIPPED = app().reducers[CHAT]
NEW = Reducer(lambda _state, _event, _context: Step(set={"title": "new"}), b"a new version")

Ship = Callable[[Reducer], None]


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Ship:
    """Make this the code of chats that is installed."""

    def shipping(reducer: Reducer) -> None:
        changed = app()._replace(reducers={**app().reducers, CHAT: reducer})
        monkeypatch.setattr("demiurge.bootstrap.opening.app", lambda: changed)

    return shipping


@pytest.fixture
def mine(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "mine")}


@pytest.fixture
def theirs(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "theirs")}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """What hostile code leaves behind."""
    return tmp_path / "it-ran"


def hostile(trace: Path, title: str = "hostile") -> Reducer:
    """Code of a stranger, as it lies in their world."""
    lines = [f"open({str(trace)!r}, 'w').close()", "from demiurge.world.reducer import Step"]
    lines += ["import demiurge.apps.demiurge as shipped", "def reduce(state, event, context):"]
    lines += ["    step = shipped.app().reducers[shipped.CHAT].reduce(state, event, context)"]
    lines += [f"    return Step(set={{**step.set, 'title': {title!r}}}, append=step.append, events=step.events)"]
    made = kept_reducer("\n".join(lines).encode())
    trace.unlink()
    return made


async def created(folder: Path, environment: dict[str, str], chat: str = "main") -> None:
    async with World.open(folder, environment=environment) as world:
        value = {"chat_id": chat, "title": "Mine", "created_at_ms": 1}
        await world.submit("demiurge/ChatCreated@1", value)


async def title(folder: Path, environment: dict[str, str]) -> str:
    async with World.open(folder, environment=environment) as world:
        state = await world.state(CHAT, "main")
        assert state is not None
        return str(state["title"])


async def assert_unit_is_unchecked(folder: Path, environment: dict[str, str]) -> None:
    """Neither looking nor an event opens the unit, nor does a replay."""
    with pytest.raises(Divergence, match="DEMIURGE_KEPT_CODE=1") as looking:
        await title(folder, environment)
    with pytest.raises(Divergence) as sending:
        await created(folder, environment)
    async with World.open(folder, environment=environment) as world:
        replayed = await world.replay(check=False)
    assert (looking.value.code, sending.value.code, replayed["error"]["code"]) == ("unchecked",) * 3


def swapped(here: Path, there: Path, aside: Path) -> None:
    """Put what is `there` into the place `here`."""
    here.rename(aside)
    there.rename(here)


async def test_a_unit_that_an_older_version_wrote_is_opened_and_goes_on(
    tmp_path: Path, mine: dict[str, str], ship: Ship
) -> None:
    await created(tmp_path / "w", mine)
    ship(NEW)
    assert await title(tmp_path / "w", mine) == "Mine"
    await created(tmp_path / "w", mine)
    assert await title(tmp_path / "w", mine) == "new"
    async with World.open(tmp_path / "w", environment=mine) as world:
        assert (await world.replay())["ok"]
        fork = await world.fork(tmp_path / "fork")
    assert await title(Path(fork), mine) == "new"
    async with World.open(fork, environment=mine) as world:
        assert (await world.replay())["ok"]


async def test_the_old_code_is_needed_until_the_first_step_only(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str], ship: Ship
) -> None:
    await created(tmp_path / "w", mine)
    ship(NEW)
    await created(tmp_path / "w", mine)
    assert await title(tmp_path / "w", theirs) == "new", "from a snapshot"


async def test_code_allowed_by_the_environment_is_trusted_from_then_on(
    tmp_path: Path, mine: dict[str, str], ship: Ship
) -> None:
    await created(tmp_path / "w", {})
    ship(NEW)
    await assert_unit_is_unchecked(tmp_path / "w", mine)
    await created(tmp_path / "w", {**mine, "DEMIURGE_KEPT_CODE": "1"})
    assert await title(tmp_path / "w", mine) == "new"


async def test_a_fork_of_an_old_moment_can_be_opened(tmp_path: Path, mine: dict[str, str], ship: Ship) -> None:
    await created(tmp_path / "w", mine)
    ship(NEW)
    async with World.open(tmp_path / "w", environment=mine) as world:
        fork = await world.fork(tmp_path / "fork", at=3)
    assert await title(Path(fork), mine) == "Mine"


async def test_code_of_another_users_world_does_not_run(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str], trace: Path, ship: Ship
) -> None:
    ship(hostile(trace))
    await created(tmp_path / "w", theirs)
    ship(SHIPPED)
    await assert_unit_is_unchecked(tmp_path / "w", mine)
    assert not trace.exists()


async def test_code_of_another_users_world_in_the_same_folder_does_not_run(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str], trace: Path, ship: Ship
) -> None:
    """Also when its id is that of mine, and when it pins code that I did run in mine."""
    ship(hostile(trace))
    await created(tmp_path / "w", mine)
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    (tmp_path / "copy" / MARK).unlink()
    await created(tmp_path / "copy", theirs, "other")
    ship(SHIPPED)
    await assert_unit_is_unchecked(tmp_path / "copy", mine)
    swapped(tmp_path / "w", tmp_path / "copy", tmp_path / "aside")
    await assert_unit_is_unchecked(tmp_path / "w", mine)
    assert not trace.exists()


async def test_code_that_others_put_into_a_lent_world_does_not_run(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str], trace: Path, ship: Ship
) -> None:
    """It has its mark, its id and its place."""
    await created(tmp_path / "w", mine, "other")
    assert recall(mine, tmp_path / "w") is not None
    ship(hostile(trace))
    await created(tmp_path / "w", theirs)
    ship(SHIPPED)
    await assert_unit_is_unchecked(tmp_path / "w", mine)
    assert not trace.exists()


async def test_other_bytes_under_the_address_of_mine_are_not_run(
    tmp_path: Path, mine: dict[str, str], trace: Path, ship: Ship, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = hostile(trace).source
    await created(tmp_path / "w", mine)
    ship(NEW)
    genuine = SqliteStore.get_blob
    monkeypatch.setattr(
        SqliteStore, "get_blob", lambda store, ref: bad if ref == ref_of(SHIPPED.source) else genuine(store, ref)
    )
    await assert_unit_is_unchecked(tmp_path / "w", mine)
    assert not trace.exists()


async def test_a_process_that_only_reads_records_no_trusted_code(
    tmp_path: Path, mine: dict[str, str], theirs: dict[str, str]
) -> None:
    await created(tmp_path / "w", mine)
    assert await title(tmp_path / "w", theirs) == "Mine"
    assert recall(theirs, tmp_path / "w") is None
    assert not (tmp_path / "theirs").exists()


async def test_a_record_of_trusted_code_that_others_can_write_is_not_believed(
    tmp_path: Path, mine: dict[str, str], ship: Ship
) -> None:
    await created(tmp_path / "w", mine)
    [record] = (tmp_path / "mine/.config/demiurge/worlds").iterdir()
    os.chmod(record, 0o666)
    ship(NEW)
    await assert_unit_is_unchecked(tmp_path / "w", mine)


def test_the_latest_trusted_code_is_kept_also_when_the_profile_is_forgotten(
    tmp_path: Path, mine: dict[str, str]
) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    own = TrustedCode(mine, folder)
    sources = [str(number).encode() for number in range(MOST + 3)]
    for source in sources:
        own.add([Reducer(NEW.reduce, source)])
    assert [own.holds(ref_of(source)) for source in sources] == [False] * 3 + [True] * MOST
    forget(mine, folder)
    assert own.holds(ref_of(sources[-1]))
    nowhere = TrustedCode({}, folder)
    nowhere.add([NEW])
    assert not nowhere.holds(ref_of(NEW.source))
