"""An engine that is left running: who may take it, and when it ends."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from demiurge.errors import Conflict
from demiurge.models.local import LocalEngine, locate
from demiurge.models.local.left_engine import EngineLease, LeftEngine, seconds_to_stay, stop_left_engine

PATIENCE_S = 60.0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "m.gguf.prompts"
    folder.mkdir(mode=0o700)
    return folder


@contextmanager
def engine_alive(folder: Path, base_url: str | None = None) -> Iterator[LeftEngine]:
    """Stands in for an engine's process: it holds its lock, answers `/health`, and is named in `engine.json`."""

    class Health(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Health)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    known = LeftEngine(base_url or f"http://127.0.0.1:{server.server_port}/v1", "key", 4096, "program 1")
    lines = {"base_url": known.base_url, "api_key": "key", "context": 4096, "made_for": "program 1"}
    (folder / "engine.json").write_text(json.dumps(lines))
    alive = os.open(folder / "engine.alive", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(alive, fcntl.LOCK_EX)
    try:
        yield known
    finally:
        os.close(alive)
        server.shutdown()
        server.server_close()


def lease(folder: Path) -> EngineLease:
    taken = EngineLease.taken(folder)
    assert taken is not None
    return taken


def test_an_engine_has_one_user_at_a_time(place: Path) -> None:
    first = lease(place)
    assert EngineLease.taken(place) is None
    first.give_back()
    lease(place).give_back()


@pytest.mark.parametrize("mode", [0o701, 0o710, 0o750, 0o777])
def test_no_engine_is_left_in_a_folder_that_others_can_open(place: Path, mode: int) -> None:
    place.chmod(mode)
    assert EngineLease.taken(place) is None
    assert list(place.iterdir()) == []


def test_a_missing_folder_has_no_lease(tmp_path: Path) -> None:
    assert EngineLease.taken(tmp_path / "none") is None


def test_a_live_engine_is_found(place: Path) -> None:
    with engine_alive(place) as known:
        assert lease(place).engine() == known


def test_the_address_of_a_dead_engine_is_not_asked(place: Path) -> None:
    with engine_alive(place):
        pass
    assert lease(place).engine() is None


@pytest.mark.parametrize("base_url", ["http://127.0.0.2:80/v1", "http://evil.example:80/v1", "http://127.0.0.1/v1"])
def test_an_address_elsewhere_is_not_asked(place: Path, base_url: str) -> None:
    with engine_alive(place, base_url):
        assert lease(place).engine() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"base_url": 1}', '{"other": 2}', "\xff"])
def test_a_damaged_file_names_no_engine(place: Path, text: str) -> None:
    with engine_alive(place):
        (place / "engine.json").write_text(text)
        assert lease(place).engine() is None


def test_the_prompt_that_the_engine_knows_is_noted(place: Path) -> None:
    with engine_alive(place) as known:
        held = lease(place)
        held.note_known_prompt("abc")
        found = held.engine()
        assert found is not None
        assert found.known_prompt == "abc"
        assert (found.api_key, found.context, found.made_for) == (known.api_key, known.context, known.made_for)
    assert (place / "engine.json").stat().st_mode & 0o777 == 0o600


def test_an_engine_that_is_used_is_not_stopped(place: Path) -> None:
    assert not stop_left_engine(place)
    with engine_alive(place):
        held = lease(place)
        with pytest.raises(Conflict) as refused:
            stop_left_engine(place)
        assert refused.value.code == "engine_in_use"
        held.give_back()


@pytest.mark.parametrize(("said", "seconds"), [({}, 300), ({"DEMIURGE_LOCAL_MODEL_STAYS": "7.5"}, 7.5)])
def test_an_engine_stays_for_five_minutes_or_as_long_as_the_environment_says(
    said: dict[str, str], seconds: float
) -> None:
    assert seconds_to_stay(said) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "", "long", "nan"])
def test_an_engine_ends_at_once_if_the_environment_gives_it_no_time(text: str) -> None:
    assert seconds_to_stay({"DEMIURGE_LOCAL_MODEL_STAYS": text}) == 0


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the weights of this machine; returns the folder of what engines leave."""
    weights = locate()
    assert weights is not None
    models = tmp_path / "cache" / "models"
    models.mkdir(parents=True)
    (models / weights.name).symlink_to(weights)
    monkeypatch.setenv("DEMIURGE_CACHE", str(tmp_path / "cache"))
    return models / f"{weights.name}.prompts"


def until(holds: Callable[[], bool]) -> None:
    last = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < last, "it did not happen within a minute"
        time.sleep(0.05)


def alive(folder: Path) -> bool:
    taken = EngineLease.taken(folder)
    if taken is None:
        return True
    found = taken.engine() is not None
    taken.give_back()
    return found


@pytest.mark.local_model
def test_the_next_owner_takes_the_engine_and_the_last_one_has_it_end(real: Path) -> None:
    first, second, third = LocalEngine(stays_s=1000), LocalEngine(stays_s=1000), LocalEngine(stays_s=1000)
    first.start()
    address = first.base_url
    second.start()
    assert second.base_url != address, "a second owner at the same time has an engine of its own"
    second.stop()
    assert not second.running
    first.note_known_prompt("a prompt")
    first.stop()
    third.start()
    assert (third.base_url, third.known_prompt, third.running) == (address, "a prompt", True)
    third.stop()
    assert stop_left_engine(real)
    assert not stop_left_engine(real)
    assert not (real / "engine.json").exists()


@pytest.mark.local_model
def test_an_engine_whose_owner_is_killed_ends_after_its_time(real: Path) -> None:
    code = "from demiurge.models import LocalEngine as E; e = E(stays_s=2); e.start(); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"1\n"
        assert alive(real)
        owner.kill()
    until(lambda: not alive(real))
    assert not (real / "engine.json").exists()


@pytest.mark.local_model
@pytest.mark.full
def test_an_engine_that_can_not_be_left_ends_with_its_owner(real: Path) -> None:
    real.mkdir(mode=0o700)
    (real / "engine.json.part").mkdir()  # stands in for a full disk
    engine = LocalEngine(stays_s=1000)
    engine.start()
    assert engine.running
    engine.stop()
    assert not alive(real)


@pytest.mark.local_model
@pytest.mark.full
def test_an_engine_of_another_program_ends_when_a_new_one_is_made(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = LocalEngine(stays_s=1000)
    old.start()
    address = old.base_url
    old.stop()
    monkeypatch.setattr("demiurge.models.local.engine.CHAT_TEMPLATE", "{{ messages[0].content }}")
    new = LocalEngine(stays_s=1000)
    new.start()
    assert new.base_url != address
    new.stop()
    assert stop_left_engine(real)
