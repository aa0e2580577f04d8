"""A world whose app has changed is read with the code that it keeps, if its user says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from demiurge import World
from demiurge.apps.demiurge import CHAT, app
from demiurge.errors import Divergence
from demiurge.world.reducer import Reducer, Step

CREATED = {"chat_id": "main", "title": "Kept", "created_at_ms": 1}


async def test_a_changed_app_reads_its_old_chats_by_the_code_they_ran_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        await world.submit("demiurge/ChatCreated@1", CREATED)
    other = Reducer(lambda _s, _e, _c: Step(delete=True), b"another source")
    changed = app()._replace(reducers={CHAT: other})
    monkeypatch.setattr("demiurge.bootstrap.opening.app", lambda: changed)
    async with World.open(tmp_path / "w", environment={}) as world:
        with pytest.raises(Divergence, match="DEMIURGE_KEPT_CODE=1") as raised:
            await world.state(CHAT, "main")
        assert raised.value.code == "unchecked"
    async with World.open(tmp_path / "w", environment={"DEMIURGE_KEPT_CODE": "1"}) as world:
        state = await world.state(CHAT, "main")
        assert state is not None
        assert state["title"] == "Kept"
        assert (await world.replay())["ok"]
