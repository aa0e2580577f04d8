"""The catalog of prompt tools over HTTP: its rows, versions, a rollback, and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.provider import Provider
from tests.registry.proposals import proposal_of
from tests.server.conftest import POLICY, Served, served_on
from tests.server.review_steps import approve

from demiurge import World
from demiurge.registry.core_ids import CORE_IDS


async def test_the_tools_of_a_world_include_the_prompt_tools_of_which_16_are_locked(served: Served) -> None:
    user = await served.client()
    await approve(user)
    rows = (await user.get("/api/tools")).json()["tools"]
    callables = [row for row in rows if row["kind"] == "callable"]
    prompts = [row for row in rows if row["kind"] == "prompt"]
    assert {row["id"] for row in callables} == set(POLICY.allowed_tools)
    assert not any("locked" in row for row in callables)
    assert {row["id"] for row in prompts if row["locked"]} == set(CORE_IDS)
    [own] = [row for row in prompts if not row["locked"]]
    assert (own["id"], own["layer"], own["version"]) == ("scene_pacer", "user", 1)
    assert set(own) == {"kind", "id", "name", "layer", "locked", "version", "digest", "decision"}
    chosen = (await user.get("/api/tools", params={"tool": "order_part"})).json()["tools"]
    assert [row["id"] for row in chosen] == ["order_part"]


async def test_a_core_tool_is_shown_in_any_spelling(served: Served) -> None:
    viewer = await served.client("viewer")
    found = (await viewer.get("/api/prompt-tools/Line-Editor")).json()
    assert (found["id"], found["locked"], found["layer"], found["version"]) == ("line_editor", True, "global", None)
    assert len((await viewer.get("/api/prompt-tools")).json()["tools"]) == 16
    missing = await viewer.get("/api/prompt-tools/no_such")
    assert (missing.status_code, missing.json()["code"]) == (404, "no_tool")


async def test_versions_are_listed_compared_and_proposed_again(served: Served) -> None:
    user = await served.client()
    await approve(user)
    await approve(user, proposalType="modify", prompt="Read the scene. Quote two slow paragraphs.")
    path = "/api/prompt-tools/scene_pacer"
    versions = (await user.get(f"{path}/history")).json()["versions"]
    assert [(each["version"], each["is_live"]) for each in versions] == [(2, True), (1, False)]
    document = (await user.get(f"{path}/versions/1")).json()
    assert document["tool"]["prompt"] == proposal_of()["prompt"]
    fields = (await user.get(f"{path}/diff", params={"old": 1, "new": 2})).json()["fields"]
    assert [(field["field"], field["old"]) for field in fields] == [("prompt", proposal_of()["prompt"])]
    why = "The first text gave better quotes."
    back = await user.post(f"{path}/rollback", json={"version": 1, "rationale": why})
    assert (back.status_code, back.json()["state"], back.json()["kind"]) == (201, "chief_review", "modify")
    assert (await user.get(path)).json()["version"] == 2
    for query in ("versions/9", "diff?old=1&new=9"):
        answer = await user.get(f"{path}/{query}")
        assert (answer.status_code, answer.json()["code"]) == (404, "no_version"), query
    locked = await user.get("/api/prompt-tools/line_editor/history")
    assert (locked.status_code, locked.json()["code"]) == (403, "core_tool_locked")


@pytest.mark.parametrize("role", ["agent", "chief", "approver", "viewer"])
async def test_only_the_user_has_files_read_and_written(served: Served, role: str) -> None:
    client = await served.client(role)
    assert (await client.get("/api/prompt-tool-files")).status_code == 403
    for verb in ("sync", "export"):
        assert (await client.post(f"/api/prompt-tool-files/{verb}")).status_code == 403


async def test_the_live_tools_are_written_to_files_and_a_change_in_one_is_a_proposal(
    tmp_path: Path, provider: Provider
) -> None:
    opening = World.open(tmp_path / "w", environment={"HOME": str(tmp_path)})
    async with opening as world, served_on(world, provider) as served:
        user = await served.client()
        await approve(user, target="project")
        [path] = (await user.post("/api/prompt-tool-files/export")).json()["files"]
        text = Path(path).read_text("utf-8")
        Path(path).write_text(text.replace("up to three", "up to four"), "utf-8")
        [_, project] = (await user.post("/api/prompt-tool-files/sync")).json()["layers"]
        [made] = project["proposals"]
        assert (await user.get(f"/api/proposals/{made}")).json()["submitted_by"] == "file:project"
        Path(path).write_text("no JSON", "utf-8")
        refused = await user.post("/api/prompt-tool-files/export")
        assert (refused.status_code, refused.json()["code"]) == (409, "layer_damaged")
        assert (await user.get("/api/prompt-tool-files")).json()["layers"][1]["state"] == "damaged"
        assert Path(path).read_text("utf-8") == "no JSON"
