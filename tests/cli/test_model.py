"""`demiurge model`: the weights come, are listed, and go; what takes long shows how far it is."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demiurge.errors import Unavailable
from demiurge.models.local import LOCAL_MODEL

DATA = b"not really a model" * 200_000


@pytest.fixture
def small_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A model file small enough for a test, and where it can be had."""
    weights = replace(LOCAL_MODEL, size=len(DATA), sha256=hashlib.sha256(DATA).hexdigest(), parts=())
    for name in ("fetch", "locate", "remove"):
        function = getattr(__import__("demiurge.models.local", fromlist=[name]), name)
        given = {**(function.__kwdefaults__ or {}), "weights": weights}
        if name == "fetch":
            monkeypatch.setattr(function, "__kwdefaults__", given)
        else:
            monkeypatch.setattr(function, "__defaults__", (weights,))
    source = tmp_path / "model.gguf"
    source.write_bytes(DATA)
    return source


def test_fetch_ls_rm(demiurge: Any, small_model: Path) -> None:
    [listed] = demiurge("model", "ls", "--json").document["models"]
    assert listed["path"] is None
    assert "demiurge model fetch" in demiurge("model", "ls").out

    fetched = demiurge("model", "fetch", str(small_model), "--json")
    assert fetched.status == 0
    path = Path(fetched.document["path"])
    assert path.read_bytes() == DATA
    assert "\r" not in fetched.err
    told = [line.split(":")[0] for line in fetched.err.splitlines()]
    assert set(told) == {"Fetching the local model", "Checking the local model", "The local model is here"}
    assert max(map(told.count, told)) <= 4, "a line for each quarter"
    assert [line for line in fetched.err.splitlines() if "100%" in line] == ["The local model is here: 100% of 3 MiB"]

    [listed] = demiurge("model", "ls", "--json").document["models"]
    assert listed["path"] == str(path)
    assert demiurge("model", "rm", "--json").document["freed"] >= len(DATA)
    assert not path.exists()
    assert "nothing to remove" in demiurge("model", "rm").out


def test_stop_without_a_process(demiurge: Any, small_model: Path) -> None:
    assert demiurge("model", "stop", "--json").document == {"ended": False}
    assert demiurge("model", "fetch", str(small_model)).status == 0
    assert demiurge("model", "stop").out == "No process of the model goes on.\n"


def test_the_wrong_bytes_are_refused(demiurge: Any, small_model: Path) -> None:
    small_model.write_bytes(DATA[:-1] + b"!")
    done = demiurge("model", "fetch", str(small_model), "--json")
    assert done.status == 1
    assert done.document["error"]["code"] == "damaged"


def test_a_source_that_is_not_there(demiurge: Any) -> None:
    done = demiurge("model", "fetch", "/nowhere/model.gguf")
    assert done.status == 1
    assert "There is no file /nowhere/model.gguf" in done.err


def test_a_chat_without_a_key_needs_the_weights_first(
    demiurge: Any, small_model: Path, monkeypatch: pytest.MonkeyPatch, world: Path
) -> None:
    """They can't be had here, so nothing is begun: no world is made, no message is taken."""
    monkeypatch.delenv("LLM_API_KEY")
    monkeypatch.setattr("demiurge.cli.progress.ENGINE", "json")

    def no_network(*_: Any) -> Path:
        raise Unavailable("There is no network.", code="model_unavailable")

    monkeypatch.setattr("demiurge.cli.progress.fetch", no_network)
    done = demiurge("chat", "-m", "hello")
    assert done.status == 1
    assert "fetched once" in done.err
    assert done.err.endswith("error: There is no network.\n")
    assert not world.exists()
