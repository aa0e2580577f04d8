"""kill -9 around each step of a notice: it arrives under the same id, and nothing is left open after its call is
decided."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.webhook_worlds import opened, until, verified
from tests.world.effects.servers import http_response, serving_site

from demiurge import World
from demiurge.bootstrap.secrets import open_vault
from demiurge.faults import armed


async def run(folder: Path, fault: str, *, add: str = "", call: str = "", reject: str = "") -> int:
    return (await run_program("webhook_child", folder, add, call, reject, faults=fault)).returncode


async def with_webhook(folder: Path, port: int) -> str:
    """Makes a world with a webhook, and returns its key."""
    async with opened(folder) as world:
        return (await world.webhooks.add(f"http://127.0.0.1:{port}/h")).key


async def intact(world: World) -> None:
    assert (await world.replay())["ok"]
    assert world.journal.verify().ok


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [
        ("webhook.not_told=kill", 0),
        ("effect.before_attempt=kill", 0),
        ("attempts.after_commit=kill", 0),
        ("effect.attempted=kill", 0),
        ("effect.performed=kill", 1),
        ("effect.received=kill", 1),
    ],
)
async def test_a_notice_survives_a_kill_under_the_same_id(fault: str, arrives: int, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with serving_site({"/h": http_response(204)}) as there:
        key = await with_webhook(folder, there.port)
        assert await run(folder, fault, call="b1") == -signal.SIGKILL
        assert len(there.asked) == arrives
        async with opened(folder) as world:
            await world.settle()
            await until(lambda: there.asked)
            await world.settle()
            [hook] = await world.webhooks.list()
            assert (hook.delivered, hook.waiting) == (1, 0)
            await intact(world)
        sent = len(there.asked)
        assert sent == (2 if fault == "effect.performed=kill" else 1)
        assert len({(asked.headers["webhook-id"], asked.body) for asked in there.asked}) == 1
        for asked in there.asked:
            assert verified(asked, key)["data"]["tool"] == "ring_bell"
        async with opened(folder) as world:
            await world.settle()
        assert len(there.asked) == sent, "a confirmed notice is not sent again"


async def test_a_notice_is_sent_again_after_each_of_many_kills(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with serving_site({"/h": http_response(204)}) as there:
        await with_webhook(folder, there.port)
        for number in range(3):
            assert await run(folder, "effect.performed=kill", call="b1" if not number else "") == -signal.SIGKILL
        async with opened(folder) as world:
            await world.settle()
            [hook] = await world.webhooks.list()
            assert (hook.delivered, hook.waiting) == (1, 0)
        assert len(there.asked) == 4
        assert len({asked.headers["webhook-id"] for asked in there.asked}) == 1


async def test_a_kill_after_the_decision_leaves_no_attempt_behind(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    async with serving_site({"/h": http_response(500)}) as there:
        await with_webhook(folder, there.port)
        async with opened(folder) as world:
            await world.call("ring_bell", '{"word": "xyzzy"}', "b1")
            await until(lambda: there.asked)
            await world.settle()
        assert await run(folder, "webhook.withdrawn=kill", reject="all") == -signal.SIGKILL
        sent = len(there.asked)
        async with opened(folder) as world:
            await world.settle()
            assert await world.approvals() == []
            [hook] = await world.webhooks.list()
            assert (hook.waiting, hook.next_attempt_at_ms) == (0, None)
            [head] = world.backend.read.heads("sys/Webhook@1/")
            assert not head.open
            await intact(world)
        assert len(there.asked) == sent


@pytest.mark.parametrize(("fault", "added"), [("webhook.sealed=kill", 0), ("webhook.added=kill", 1)])
async def test_a_kill_while_a_webhook_is_added_leaves_no_webhook_without_a_key(
    fault: str, added: int, tmp_path: Path
) -> None:
    folder = tmp_path / "w"
    assert await run(folder, fault, add="http://127.0.0.1:9/h") == -signal.SIGKILL
    async with opened(folder) as world:
        assert len(await world.webhooks.list()) == added
    vault = open_vault({"HOME": str(tmp_path)})
    assert vault is not None
    assert len(vault.names()) == 1


async def test_a_webhook_whose_removal_was_interrupted_can_be_removed_again(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    await with_webhook(folder, 9)
    async with opened(folder) as world:
        [hook] = await world.webhooks.list()
        with armed({"webhook.discarded": OSError("cut off")}), pytest.raises(OSError, match="cut off"):
            await world.webhooks.remove(hook.id)
        assert len(await world.webhooks.list()) == 1
        await world.webhooks.remove(hook.id)
        assert await world.webhooks.list() == []
