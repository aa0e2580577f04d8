"""Taking back the last turn: its files have their earlier content, later changes stay, other effects are named."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.undo import undo_turn
from demiurge.bootstrap.workspace import Workspace
from demiurge.errors import Conflict, NotFound
from demiurge.tools import ToolContext
from demiurge.tools.capabilities import Workspaces

ALLOWED = ("workspace__write", "workspace__read", "send_mail", "send_and_note")


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send_mail(to: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
async def send_and_note(to: str, *, context: ToolContext) -> str:
    """Send a mail, and note it in the workspace."""
    files = context.resources.get(Workspaces)
    assert files is not None
    await files.write("sent.txt", to, workspace="main", expected_version=None)
    return "Sent."


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
async def world(provider: Provider, tmp_path: Path) -> AsyncIterator[World]:
    given = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url, "HOME": str(tmp_path)}
    async with World.open(
        tmp_path / "world", [send_mail, send_and_note], ToolPolicy(ALLOWED), environment=given
    ) as opened:
        yield opened


async def turn(world: World, provider: Provider, *calls: tuple[str, dict[str, Any]]) -> None:
    named = [Provider.call(name, arguments, f"call_{place}") for place, (name, arguments) in enumerate(calls)]
    provider.say(Provider.answer(*named), Provider.answer(Provider.text("Done.")))
    assert (await world.chat("main").send("Go on.")).status == "done"


def write(path: str, text: str) -> tuple[str, dict[str, Any]]:
    return "workspace__write", {"path": path, "text": text}


async def test_files_of_the_last_turn_have_their_earlier_content(world: World, provider: Provider) -> None:
    await turn(world, provider, write("notes/a.txt", "first"))
    await turn(world, provider, write("notes/a.txt", "second"), write("new/b.txt", "b"), write("notes/a.txt", "third"))
    undone = await undo_turn(world, "main")
    assert (undone.restored, undone.removed, undone.others) == (["main/notes/a.txt"], ["main/new/b.txt"], {})
    files = Workspace(world, "main")
    assert await files.read("notes/a.txt") == b"first"
    assert [entry.path for entry in await files.children("")] == ["notes"]
    assert (await files.version()).owner == "user"
    assert await files.read("notes/a.txt", 4) == b"third"
    assert (await undo_turn(world, "main")).sentences() == ["The last turn changed no file in a workspace."]
    assert world.journal.verify().ok


async def test_the_first_version_of_a_workspace_is_taken_back(world: World, provider: Provider) -> None:
    await turn(world, provider, write("deep/er/a.txt", "first"))
    assert (await undo_turn(world, "main")).removed == ["main/deep/er/a.txt"]
    assert list(await Workspace(world, "main").children("")) == []


async def test_a_file_that_was_changed_since_stays(world: World, provider: Provider) -> None:
    await turn(world, provider, write("a.txt", "model's"), write("b.txt", "model's"))
    await Workspace(world, "main").write("a.txt", b"person's")
    undone = await undo_turn(world, "main")
    assert (undone.changed_since, undone.removed) == (["main/a.txt"], ["main/b.txt"])
    assert await Workspace(world, "main").read("a.txt") == b"person's"


async def test_other_effects_are_named(world: World, provider: Provider) -> None:
    mail = "send_mail", {"to": "ada"}
    await turn(world, provider, write("a.txt", "a"), mail, ("workspace__read", {"path": "a.txt"}), ("nope", {}))
    undone = await undo_turn(world, "main")
    assert undone.others == {"send_mail": 1}
    assert undone.sentences()[-1] == "What these calls did can't be taken back here: send_mail."


async def test_a_call_that_may_have_done_more_than_its_file_is_named(world: World, provider: Provider) -> None:
    await turn(world, provider, ("send_and_note", {"to": "ada"}))
    undone = await undo_turn(world, "main")
    assert (undone.removed, undone.others) == (["main/sent.txt"], {"send_and_note": 1})


async def test_a_chat_without_a_turn_or_with_an_open_one_is_refused(
    world: World, provider: Provider, tmp_path: Path
) -> None:
    with pytest.raises(NotFound):
        await undo_turn(world, "main")
    provider.say(Provider.answer(Provider.call("core__ask_user", {"question": "Which?"})))
    await world.set_policy(ToolPolicy((*ALLOWED, "core__ask_user")))
    await world.chat("main").send("Ask me.")
    with pytest.raises(Conflict):
        await undo_turn(world, "main")
