"""A step of the review of prompt tools over HTTP that several tests take."""

from __future__ import annotations

from typing import Any

import httpx
from tests.registry.proposals import proposal_of

__all__ = ["approve"]


async def approve(user: httpx.AsyncClient, **changed: Any) -> dict[str, Any]:
    """Proposes a tool, skips the review and approves it; returns the proposal."""
    body = proposal_of(**changed)
    if body["proposalType"] != "new":
        live = (await user.get(f"/api/prompt-tools/{body['id']}")).json()
        body = {"baseHash": live["digest"], **body}
    made = (await user.post("/api/proposals", json=body)).json()
    path, about = f"/api/proposals/{made['id']}", {"digest": made["digest"], "reason": "A test."}
    await user.post(f"{path}/skip-review", json=about)
    answer = await user.post(f"{path}/approve", json={**about, "read": True})
    assert (answer.status_code, answer.json()["state"]) == (200, "approved"), answer.text
    found: dict[str, Any] = answer.json()
    return found
