"""The core tools that analyse long files: the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.registry.pack.prose_calls import CALLS
from tests.registry.pack.workspace_folder import sources_with

from demiurge.registry.pack import consistency_checker, line_editor, prose_analyzer, reader_experience_simulator

PATIENCE_S = 60
FILES = {"a.md": "They met Mara. She slept.\n", "b.md": "At dawn they met Mara.\n"}


@pytest.mark.parametrize(
    ("module", "work"),
    [
        (consistency_checker, "entities"),
        (reader_experience_simulator, "entities"),
        (prose_analyzer, "sentences"),
        (line_editor, "_findings"),
    ],
)
async def test_the_loop_goes_on_while_a_text_is_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, work: str
) -> None:
    """The work waits for the loop: on the loop itself, it would wait in vain."""
    begun, has_gone_on = threading.Event(), threading.Event()
    do_work = getattr(module, work)
    waited = []

    def work_after_the_loop(*args: Any) -> Any:
        begun.set()
        waited.append(has_gone_on.wait(PATIENCE_S))
        return do_work(*args)

    monkeypatch.setattr(module, work, work_after_the_loop)
    name = module.__name__.rpartition(".")[2]
    call = asyncio.ensure_future(CALLS[name](sources_with(tmp_path, FILES)))
    while not (begun.is_set() or call.done()):
        await asyncio.sleep(0.01)
    has_gone_on.set()
    found = await call
    assert waited
    assert all(waited)
    assert found.value
