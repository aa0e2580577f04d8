"""`World.webhooks`: notices about calls that wait, delivered until a 2xx, by effects under a grant."""

from __future__ import annotations

from pathlib import Path

from tests.bootstrap.webhook_worlds import opened, until, verified
from tests.world.effects.servers import answer, site


async def test_a_waiting_call_is_announced_with_a_signature_and_without_arguments(tmp_path: Path) -> None:
    async with site({"/hook": answer(204)}) as there, opened(tmp_path / "w", page_url="http://x.example") as world:
        added = await world.webhooks.add(f"http://127.0.0.1:{there.port}/hook", "phone")
        called = await world.call("ring_bell", '{"word": "xyzzy"}', "b1")
        await until(lambda: there.asked)
        await world.settle()
        [asked] = there.asked
        body = verified(asked, added.key)
        assert asked.headers["content-type"] == "application/json"
        assert asked.headers["webhook-id"].startswith("msg_")
        assert body["type"] == "call.waiting"
        assert body["text"] == "A call of ring_bell waits for a decision."
        [waiting] = await world.approvals()
        data = body["data"]
        assert data["id"] == called.approval == waiting["id"]
        assert (data["tool"], data["effect"], data["chat"]) == ("ring_bell", "external_side_effect", None)
        assert data["link"] == "http://x.example/approvals"
        assert b"xyzzy" not in asked.body
        [hook] = await world.webhooks.list()
        assert (hook.id, hook.name, hook.state) == (added.id, "phone", "active")
        assert (hook.attempts, hook.delivered, hook.waiting, hook.problem) == (1, 1, 0, None)
        kinds = [record.kind for record in world.journal.read(f"sys/Webhook@1/{added.id}")]
        assert kinds[-4:] == ["step", "intent", "receipt", "step"]
        assert (await world.replay())["ok"]
        assert world.journal.verify().ok
