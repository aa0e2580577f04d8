"""`sys/Webhook@1` and `webhook.deliver`: attempts under a grant until a 2xx, by a clock that a test moves."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.webhook_worlds import verified
from tests.world.effects.certificates import certificate
from tests.world.effects.servers import Answer, SeenRequest, http_response, serving_site
from tests.world.effects.vaults import vault_at
from tests.world.manual_clock import DAY, HOUR, Time
from tests.world.small_world import small_manifest

from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.errors import InvalidValue
from demiurge.stores import MemoryStore, Store
from demiurge.stores.secret_vault import SecretVault
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values.caller import USER, Caller
from demiurge.values.clock import SeededEntropy, SystemEntropy
from demiurge.world.effects.webhook import PARALLEL, WebhookDeliveries
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.secrets import Secrets
from demiurge.world.unit import Unit
from demiurge.world.webhook_keys import Receiver, WebhookKeys, new_key
from demiurge.world.webhooks import FIRST_S, LONGEST_S, WEBHOOK

GRANT: Mapping[str, Any] = {"internal_networks": ["127.0.0.0/8"]}
HOOK = Unit(WEBHOOK, "hook_1")
ECHO = {"name": "echo", "cap": "ex/echo@1", "params": {}}


def manifest_of(grant: Mapping[str, Any] | None = GRANT, **more: Any) -> Manifest:
    webhooks = [{"name": "cap_webhook", "cap": "sys/webhook@1", "params": grant}] if grant is not None else []
    return small_manifest(grants=[ECHO, *webhooks], **more)


class Hooks:
    """A host with one webhook, whose key is `key`."""

    def __init__(self, host: Host, time: Time, keys: WebhookKeys) -> None:
        self.host, self.time, self.keys, self.key = host, time, keys, new_key(SystemEntropy()).reveal()

    async def add(self, url: str) -> None:
        self.keys.put(HOOK.key, Receiver(Secret(url), [Secret(self.key)]), SystemEntropy())
        origin = "/".join(url.split("/")[:3])
        await self.host.submit("sys/WebhookAdd@1", {"webhook_id": HOOK.key, "name": "n", "origin": origin})

    async def notify(self, notice: str = "msg_1", call: str | None = "c1") -> None:
        value = {"webhook_id": HOOK.key, "notice": notice, "call": call, "body": json.dumps({"n": notice})}
        await self.host.submit("sys/WebhookNotify@1", value)
        await self.host.settle()

    @property
    def cell(self) -> Mapping[str, Any]:
        cell = self.host.state(HOOK).cell
        assert cell is not None
        return cell

    def bodies(self, kind: str) -> list[Mapping[str, Any]]:
        return [record.body for record in self.host.records(HOOK) if record.kind == kind]


@asynccontextmanager
async def hooks(
    store: Store,
    folder: Path,
    *,
    manifest: Manifest | None = None,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = 30.0,
    vault: SecretVault | None = None,
    time: Time | None = None,
) -> AsyncIterator[Hooks]:
    time = time or Time()
    found = vault or vault_at(folder)
    secrets = Secrets({}, vault=found, digest_key=lambda: b"k" * 32)
    keys = WebhookKeys(found, store.world_id)

    async def named(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    web = GuardedHttp(resolve=named, tls=tls)
    adapter = WebhookDeliveries(web, keys, secrets, time.clock, timeout_s=timeout_s)
    entropy = SeededEntropy(time.clock.now_ns())
    host = Host(store, manifest or manifest_of(), [adapter], clock=time.clock, sleep=time.sleep, entropy=entropy)
    await host.start()
    try:
        yield Hooks(host, time, keys)
    finally:
        await host.close()


CONFIRMED, BROKEN = http_response(204), http_response(500)


def after(failures: int, last: Answer = CONFIRMED, *, failure: Answer = BROKEN) -> Answer:
    """Answers like `failure` so many times, then like `last`."""
    left = [failure] * failures

    async def say(asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
        found = left.pop() if left else last
        if isinstance(found, bytes):
            writer.write(found)
            await writer.drain()
        else:
            await found(asked, writer)

    return say


async def drop(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def endless(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
    """Confirms, and then sends a body that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


# -- attempts --------------------------------------------------------------------------------


async def test_a_notice_is_retried_with_growing_waits_until_it_is_confirmed(store: Store, tmp_path: Path) -> None:
    async with serving_site({"/h": after(15)}) as there, hooks(store, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        await made.time.pass_by(DAY, made.host)
        assert len({(asked.headers["webhook-id"], asked.body) for asked in there.asked}) == 1
        assert len(there.asked) == 16
        for asked in there.asked:
            verified(asked, made.key)
        times = [int(asked.headers["webhook-timestamp"]) for asked in there.asked]
        waits = [after - before for before, after in pairwise(times)]
        for number, wait in enumerate(waits):
            longest = min(LONGEST_S, FIRST_S * 2**number)
            assert longest / 2 - 1 <= wait <= longest + 1
        assert len(set(waits[-4:])) > 1, "the waits differ by chance"
        assert made.cell["notices"]["msg_1"]["is_delivered"]
        assert (made.cell["attempts"], made.cell["delivered"], made.cell["problem"]) == (16, 1, None)
        assert [body["payload"]["status"] for body in made.bodies("receipt")] == [500] * 15 + [204]
        assert {body["grant"] for body in made.bodies("intent")} == {"cap_webhook"}
        assert not made.host.state(HOOK).is_open
        assert verify(store).ok
        assert list(made.host.replay())


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (http_response(301, location="/there"), "not_confirmed"),
        (http_response(404), "not_confirmed"),
        (drop, "connection_broken"),
        (b"nonsense\r\n\r\n", "connection_broken"),
    ],
)
async def test_an_answer_that_is_no_2xx_is_tried_again(
    memory: MemoryStore, tmp_path: Path, lie: Answer, code: str
) -> None:
    answers = {"/h": after(1, failure=lie), "/there": http_response(204)}
    async with serving_site(answers) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        assert made.cell["problem"]["code"] == code
        assert made.cell["notices"]["msg_1"]["next_at"] > made.time.clock.now_ns()
        await made.time.pass_by(HOUR, made.host)
        assert [asked.target for asked in there.asked] == ["/h", "/h"], "redirects are not followed"
        assert made.cell["delivered"] == 1


async def test_a_receiver_that_does_not_answer_in_time_is_tried_again(memory: MemoryStore, tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def hang(_asked: SeenRequest, _writer: asyncio.StreamWriter) -> None:
        await ended.wait()

    async with serving_site({"/h": hang}) as there:
        async with hooks(memory, tmp_path, timeout_s=0.2) as made:
            await made.add(f"http://127.0.0.1:{there.port}/h")
            await made.notify()
            assert made.cell["problem"]["code"] == "timeout"
        there.answers["/h"] = CONFIRMED
        async with hooks(memory, tmp_path, time=Time(made.time.clock.now_ns() + HOUR)) as again:
            await again.host.settle()
            assert again.cell["delivered"] == 1
        assert len({asked.headers["webhook-id"] for asked in there.asked}) == 1
        ended.set()
        await asyncio.sleep(0)


async def test_the_body_of_an_answer_is_not_read(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": endless}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        assert made.cell["delivered"] == 1


async def test_a_receiver_that_hangs_delays_no_other_notice(memory: MemoryStore, tmp_path: Path) -> None:
    confirmed = asyncio.Event()

    async def hang_until(asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
        if asked.headers["webhook-id"] == "msg_1":
            await confirmed.wait()
        else:
            confirmed.set()
        writer.write(http_response(204))

    async with serving_site({"/h": hang_until}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        value = {"webhook_id": HOOK.key, "notice": "msg_1", "call": "c1", "body": "{}"}
        await made.host.submit("sys/WebhookNotify@1", value)
        await made.notify("msg_2", "c2")
        assert made.cell["delivered"] == 2


async def test_a_webhook_makes_few_attempts_at_the_same_time(memory: MemoryStore, tmp_path: Path) -> None:
    under_way, most = [0], [0]

    async def slow(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        await asyncio.sleep(0.02)
        under_way[0] -= 1
        writer.write(http_response(204))

    async with serving_site({"/h": slow}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        for number in range(12):
            value = {"webhook_id": HOOK.key, "notice": f"msg_{number}", "call": f"c{number}", "body": "{}"}
            await made.host.submit("sys/WebhookNotify@1", value)
        await made.host.settle()
        assert made.cell["delivered"] == 12
        assert 1 <= most[0] <= PARALLEL


async def test_tls_is_verified(memory: MemoryStore, tmp_path: Path) -> None:
    server, client = certificate("hooks.example", tmp_path)
    _, stranger = certificate("other.example", tmp_path)
    async with serving_site({"/h": http_response(204)}, tls=server) as there:
        url = f"https://hooks.example:{there.port}/h"
        async with hooks(memory, tmp_path, tls=stranger) as made:
            await made.add(url)
            await made.notify()
            assert made.cell["problem"]["code"] == "tls_failed"
            assert there.asked == []
        time = Time(made.time.clock.now_ns() + HOUR)
        async with hooks(memory, tmp_path, tls=client, time=time) as again:
            await again.host.settle()
            assert again.cell["delivered"] == 1
            assert there.asked[0].headers["host"] == f"hooks.example:{there.port}"


async def test_a_private_address_needs_a_grant_that_names_its_network(memory: MemoryStore, tmp_path: Path) -> None:
    async with (
        serving_site({"/h": http_response(204)}) as there,
        hooks(memory, tmp_path, manifest=manifest_of({})) as made,
    ):
        await made.add(f"http://inside.example:{there.port}/h")
        await made.notify()
        assert made.cell["problem"]["code"] == "address_refused"
        assert there.asked == []


# -- stopping --------------------------------------------------------------------------------


async def test_410_stops_a_webhook_until_a_test_is_confirmed(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": after(1, failure=http_response(410))}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        assert made.cell["stopped"]["code"] == "gone"
        assert made.cell["notices"] == {}
        await made.notify("msg_2", "c2")
        await made.time.pass_by(DAY, made.host)
        assert len(there.asked) == 1
        await made.notify("msg_test", None)
        assert (made.cell["stopped"], made.cell["resumed"], made.cell["notices"]) == (None, 1, {})
        await made.notify("msg_2", "c2")
        assert [asked.headers["webhook-id"] for asked in there.asked] == ["msg_1", "msg_test", "msg_2"]


async def test_410_ends_the_attempts_of_every_other_notice(memory: MemoryStore, tmp_path: Path) -> None:
    statuses = [500, 500, 410]

    async def say(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(http_response(statuses.pop(0)))

    async with serving_site({"/h": say}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        await made.notify("msg_2", "c2")
        await made.time.pass_by(DAY, made.host)
        assert (made.cell["stopped"]["code"], len(there.asked)) == ("gone", 3)
        assert not made.host.state(HOOK).is_open


async def test_a_test_is_sent_once(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(500)}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify("msg_test", None)
        await made.time.pass_by(DAY, made.host)
        assert (len(there.asked), made.cell["notices"]) == (1, {})


@pytest.mark.parametrize(
    ("manifest", "code"),
    [
        (manifest_of(None), "no_grant"),
        (manifest_of({**GRANT, "hosts": ["other.example"]}), "host_not_allowed"),
        (manifest_of({**GRANT, "schemes": ["https"]}), "scheme_not_allowed"),
        (manifest_of({**GRANT, "ports": [443]}), "port_not_allowed"),
        (manifest_of(rules=[{"when": {"effect_kind": "ex.echo"}, "decision": "allow"}]), "policy_denied"),
    ],
)
async def test_a_delivery_that_the_rules_refuse_stops_the_webhook_and_sends_nothing(
    memory: MemoryStore, tmp_path: Path, manifest: Manifest, code: str
) -> None:
    async with serving_site({"/h": http_response(204)}) as there, hooks(memory, tmp_path, manifest=manifest) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        assert made.cell["stopped"]["code"] == code
        assert [body["code"] for body in made.bodies("decision")] == [code]
        assert (made.bodies("intent"), there.asked) == ([], [])


async def test_an_attempt_whose_grant_was_withdrawn_meanwhile_is_not_made(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(500)}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        await made.host.replace_manifest(manifest_of(None), "manifest set", USER)
        await made.time.pass_by(DAY, made.host)
        assert made.cell["stopped"]["code"] == "no_grant"
        assert len(there.asked) == 1


async def test_a_webhook_without_its_key_is_stopped(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(204)}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        made.keys.discard(HOOK.key)
        await made.notify()
        assert (made.cell["stopped"]["code"], there.asked) == ("no_key", [])


async def test_a_url_of_another_receiver_than_the_recorded_one_is_not_used(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(204)}) as there, hooks(memory, tmp_path) as made:
        await made.add("http://127.0.0.2:80/h")
        receiver = Receiver(Secret(f"http://127.0.0.1:{there.port}/h"), [new_key(SystemEntropy())])
        made.keys.put(HOOK.key, receiver, SystemEntropy())
        await made.notify()
        assert (made.cell["stopped"]["code"], there.asked) == ("url_changed", [])


async def test_a_vault_that_cannot_be_read_now_is_tried_again(memory: MemoryStore, tmp_path: Path) -> None:
    locked = [False]

    def key() -> Secret | None:
        return None if locked[0] else Secret("5a" * 32)

    vault = SecretVault(tmp_path / "vault.json", key, lambda: Secret("5a" * 32))
    async with serving_site({"/h": http_response(204)}) as there, hooks(memory, tmp_path, vault=vault) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        locked[0] = True
        await made.notify()
        assert made.cell["problem"]["code"] == "secret_unavailable"
        locked[0] = False
        await made.time.pass_by(HOUR, made.host)
        assert (made.cell["delivered"], len(there.asked)) == (1, 1)


# -- what is no longer wanted --------------------------------------------------------------------------------


async def test_a_withdrawn_notice_is_not_tried_again(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(500)}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        await made.notify("msg_2", "c2")
        await made.host.submit("sys/WebhookWithdraw@1", {"webhook_id": HOOK.key, "notices": ["msg_1"]})
        await made.host.take_up(HOOK, lambda intent: intent.params["notice"] != "msg_1")
        await made.time.pass_by(HOUR, made.host)
        tries = [asked.headers["webhook-id"] for asked in there.asked]
        assert tries.count("msg_1") == 1
        assert tries.count("msg_2") > 2
        assert "cancelled" in {body["payload"].get("code") for body in made.bodies("receipt")}
        assert list(made.cell["notices"]) == ["msg_2"]


async def test_a_removed_webhook_ignores_everything(memory: MemoryStore, tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(500)}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        await made.host.submit("sys/WebhookRemove@1", {"webhook_id": HOOK.key})
        await made.notify("msg_2", "c2")
        await made.time.pass_by(DAY, made.host)
        assert made.host.state(HOOK).cell is None
        assert not made.host.state(HOOK).is_open
        assert [asked.headers["webhook-id"] for asked in there.asked] == ["msg_1"]


# -- who may, and what limits do --------------------------------------------------------------------------------


@pytest.mark.parametrize("roles", [("agent",), ("approver", "chief"), ()])
async def test_only_a_user_changes_a_webhook(memory: MemoryStore, tmp_path: Path, roles: tuple[str, ...]) -> None:
    stranger = Caller("user", roles=roles)
    async with serving_site({"/h": http_response(204)}) as there, hooks(memory, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h")
        before = made.cell
        for schema, more in (
            ("sys/WebhookNotify@1", {"notice": "m", "call": None, "body": "{}"}),
            ("sys/WebhookWithdraw@1", {"notices": []}),
            ("sys/WebhookRotate@1", {}),
            ("sys/WebhookRemove@1", {}),
        ):
            await made.host.submit(schema, {"webhook_id": HOOK.key, **more}, caller=stranger)
        await made.host.settle()
        assert (made.cell, there.asked) == (before, [])
        assert {body["error"]["code"] for body in made.bodies("step")[1:]} == {"invalid_step"}


async def test_nobody_can_forge_a_receipt(memory: MemoryStore, tmp_path: Path) -> None:
    async with hooks(memory, tmp_path) as made:
        await made.add("http://127.0.0.1:9/h")
        forged = {"intent": b"i", "key": "msg_1", "status": "ok", "payload": {"status": 200}, "error": None}
        event = {"$tag": "Delivered", "$value": forged}
        with pytest.raises(InvalidValue, match="webhook_id"):
            await made.host.submit("sys/WebhookEvent@1", event)
        assert made.cell["delivered"] == 0


async def test_the_deadline_of_runs_does_not_end_the_retries(memory: MemoryStore, tmp_path: Path) -> None:
    policy = ToolPolicy((), budgets=Budgets(run=Allowance(max_wall_ms=1000)))
    async with (
        serving_site({"/h": after(12)}) as there,
        hooks(memory, tmp_path, manifest=manifest_of(tool_policy=policy)) as made,
    ):
        await made.add(f"http://127.0.0.1:{there.port}/h")
        await made.notify()
        await made.time.pass_by(DAY, made.host)
        assert (len(there.asked), made.cell["delivered"]) == (13, 1)


async def test_the_key_and_the_path_of_the_url_are_in_no_record(store: Store, tmp_path: Path) -> None:
    async with serving_site({"/h/SECRETPATH": http_response(204)}) as there, hooks(store, tmp_path) as made:
        await made.add(f"http://127.0.0.1:{there.port}/h/SECRETPATH")
        await made.notify()
        assert made.cell["delivered"] == 1
        [receipt] = made.bodies("receipt")
        assert receipt["secrets"][0]["alias"] == f"webhook-key/{store.world_id}/hook_1"
        rows = b"".join(row.data for head in store.heads() for row in store.read(head.unit))
        assert b"SECRETPATH" not in rows
        assert made.key.encode() not in rows
