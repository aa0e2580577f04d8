"""What tools gave to a chat's session goes with their results, and the chat goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_chat_sessions import Planner, opened
from tests.provider import Answer, Provider, serving

from demiurge.prompts.planning import Plan
from demiurge.world.sessions import sessions

CANARY = b"quokka-4711"
ROUNDS: list[list[tuple[str, dict[str, Any]]]] = [
    [("planning_setup_plan", {"objective": "Move quokka-4711", "initial_steps": ["Pack", "Drive"]})],
    [("planning_add_step", {"steps": ["Unpack"]})],
    [("planning_update_step", {"step_id": 1, "status": "done"})],
    [("planning_read_plan", {})],
]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        running.next = Planner(ROUNDS).next  # type: ignore[method-assign]
        yield running


def answers_with(provider: Provider, text: str) -> None:
    provider.next = Said(text).next  # type: ignore[method-assign]


@dataclass(frozen=True)
class Said:
    """A model that says one thing."""

    text: str

    def next(self, body: Any, key: str) -> Answer:
        return Provider.answer(Provider.text(self.text))


def holding(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and CANARY in path.read_bytes())


async def test_the_states_of_a_session_go_with_the_result_that_led_to_them(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "EVERY", 1)
    folder = tmp_path / "w"
    async with opened(folder, provider.url) as world:
        chat = world.chat()
        await chat.send("go")
        plan = (await chat.session())[Plan].latest()
        assert plan is not None
        assert "quokka-4711" in plan.objective
        state = await chat.state()
        assert state is not None
        assert holding(folder) != []
        for message in state["messages"][1:-1]:
            done = await world.erase(message["message_ref"], "asked to")
            assert done.done
        assert holding(folder) == []
        left = (await chat.session())[Plan].latest()
        assert left is None or "quokka-4711" not in left.objective
        shown = await chat.messages()
        assert all("erased" in entry for entry in shown[1:-1])
        assert (await chat.reply()).status == "done"
        assert (await world.replay())["ok"]
        answers_with(provider, "Done.")
        again = await chat.send("go on")
        assert again.status == "done"
        assert holding(folder) == []
    async with opened(folder, provider.url) as world:
        await world.chat().session()
        assert world.journal.verify().ok


async def test_nothing_of_an_erased_answer_is_shown_to_who_watches_later(tmp_path: Path, provider: Provider) -> None:
    answers_with(provider, "It is quokka-4711.")
    async with opened(tmp_path / "w", provider.url) as world:
        shown: list[str] = []
        await world.chat().send("What is it?", on_frame=lambda frame: shown.append(str(frame)))
        assert "quokka" in "".join(shown)
        state = await world.chat().state()
        assert state is not None
        await world.erase(state["messages"][-1]["message_ref"], "asked to")
        later: list[str] = []
        await world.settle()
        await world.settle(on_frame=lambda frame: later.append(str(frame)))
        assert later == []
        assert holding(tmp_path / "w") == []
