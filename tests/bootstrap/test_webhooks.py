"""`World.webhooks`: notices about calls that wait, delivered until a 2xx, by effects under a grant."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.tool_question_child import opened as opened_with_booking
from tests.bootstrap.webhook_worlds import LOOPBACK, manifest_with, opened, until, verified
from tests.canaries.search import bytes_below, find_values, tap_socket
from tests.provider import Provider, serving
from tests.world.effects.servers import SeenRequest, http_response, serving_site

from demiurge import World
from demiurge.bootstrap.backend import webhook_notices
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.bootstrap.backend.webhook_notices import WebhookNotices
from demiurge.bootstrap.secrets import open_vault
from demiurge.errors import Damaged, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.faults import Fault, armed
from demiurge.values.caller import Caller
from demiurge.world import webhooks
from demiurge.world.unit import Unit

ROOT = Path(__file__).parents[2]
SECRET_PATH = "/canary-path-0123456789"
SECRET_WORD = "canary-argument-0123456789"


@pytest.fixture(autouse=True)
def _no_second_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second attempt of a notice comes after no test waits for it, however slow the machine is."""
    monkeypatch.setattr(webhooks, "FIRST_S", webhooks.LONGEST_S)


async def said_of(world: World, kind: str) -> list[Any]:
    """Returns the bodies of the records of this kind in the units of webhooks."""
    units = [head.unit for head in world.backend.read.heads("sys/Webhook@1/")]
    return [record.body for unit in units for record in world.journal.read(unit) if record.kind == kind]


async def test_a_waiting_call_is_announced_with_a_signature_and_without_arguments(tmp_path: Path) -> None:
    async with (
        serving_site({"/hook": http_response(204)}) as there,
        opened(tmp_path / "w", page_url="http://x.example") as world,
    ):
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
        assert data["since"] < data["expires"]
        assert b"xyzzy" not in asked.body
        [hook] = await world.webhooks.list()
        assert (hook.id, hook.name, hook.state) == (added.id, "phone", "active")
        assert (hook.attempts, hook.delivered, hook.waiting, hook.problem) == (1, 1, 0, None)
        assert hook.delivered_at_ms is not None
        kinds = [record.kind for record in world.journal.read(f"sys/Webhook@1/{added.id}")]
        assert kinds[-4:] == ["step", "intent", "receipt", "step"]
        assert (await world.replay())["ok"]
        assert world.journal.verify().ok


async def test_a_question_in_a_chat_is_announced_without_its_text(tmp_path: Path) -> None:
    with serving() as provider:
        provider.say(Provider.answer(Provider.call("core__ask_user", {"question": "Where to?"})))
        async with (
            serving_site({"/h": http_response(204)}) as there,
            opened(tmp_path / "w", provider=provider.url) as world,
        ):
            added = await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
            reply = await world.chat("trip").send("Book a trip.")
            await until(lambda: there.asked)
            await world.settle()
            body = verified(there.asked[0], added.key)
            assert (body["type"], body["text"]) == (
                "question.waiting",
                "A question in the chat trip waits for an answer.",
            )
            data = body["data"]
            assert (data["id"], data["chat"], data["tool"]) == (reply.approvals[0], "trip", "core__ask_user")
            assert data["expires"] is None
            assert body["timestamp"] == data["since"]
            assert "Where to?" not in str(body)


async def test_the_question_of_a_tool_is_announced_without_its_text(tmp_path: Path) -> None:
    manifest = manifest_with(LOOPBACK, tmp_path / "manifest")
    async with (
        serving_site({"/h": http_response(204)}) as there,
        opened_with_booking(tmp_path / "w", manifest=manifest) as world,
    ):
        added = await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        made = await world.call("book", {"city": "Rome"}, "b1")
        await until(lambda: there.asked)
        await world.settle()
        body = verified(there.asked[0], added.key)
        assert (body["type"], body["data"]["tool"], body["data"]["id"]) == ("question.waiting", "book", made.approval)
        assert body["data"]["expires"] is None
        assert "Who travels" not in str(body)


async def test_each_webhook_is_told_once_of_each_call_also_of_one_that_waited_before(tmp_path: Path) -> None:
    async with (
        serving_site({"/a": http_response(204), "/b": http_response(204)}) as there,
        opened(tmp_path / "w") as world,
    ):
        await world.call("ring_bell", '{"word": "x"}', "b1")
        for path in ("a", "b"):
            await world.webhooks.add(f"http://127.0.0.1:{there.port}/{path}")
        await world.call("ring_bell", '{"word": "y"}', "b2")
        await until(lambda: len(there.asked) == 4)
        await world.settle()
        assert sorted(asked.target for asked in there.asked) == ["/a", "/a", "/b", "/b"]
        assert len({asked.headers["webhook-id"] for asked in there.asked}) == 4
    async with opened(tmp_path / "w") as world:
        await world.settle()
        assert [hook.delivered for hook in await world.webhooks.list()] == [2, 2]
    assert len(there.asked) == 4


@pytest.mark.parametrize("approve", [True, False])
async def test_a_decided_call_ends_its_notice(tmp_path: Path, approve: bool) -> None:
    async with serving_site({"/h": http_response(503)}) as there, opened(tmp_path / "w") as world:
        await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        called = await world.call("ring_bell", '{"word": "x"}', "b1")
        await until(lambda: there.asked)
        await world.settle()
        [hook] = await world.webhooks.list()
        assert (hook.waiting, hook.problem) == (1, "The receiver answered 503.")
        assert hook.next_attempt_at_ms is not None
        assert called.approval is not None
        await world.decide(called.approval, approve=approve)
        while [hook.waiting for hook in await world.webhooks.list()] != [0]:
            await asyncio.sleep(0.005)
        while any(head.open for head in world.backend.read.heads("sys/Webhook@1/")):
            await asyncio.sleep(0.005)
        receipts = await said_of(world, "receipt")
        assert [body["payload"].get("code") for body in receipts] == [None, "cancelled"]
        assert len(there.asked) == 1
        assert (await world.replay())["ok"]


async def test_a_receiver_that_hangs_delays_no_call_and_no_decision(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def hang(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.write(http_response(204))

    async with serving_site({"/h": hang, "/ok": http_response(204)}) as there, opened(tmp_path / "w") as world:
        await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        await world.webhooks.add(f"http://127.0.0.1:{there.port}/ok")
        first = await world.call("ring_bell", '{"word": "x"}', "b1")
        await until(lambda: len(there.asked) == 2)
        await world.call("ring_bell", '{"word": "y"}', "b2")
        await until(lambda: len(there.asked) == 4)
        assert first.approval is not None
        await world.decide(first.approval, approve=True)
        await world.settle("demiurge/Calls@1/b1")
        done = await world.call("ring_bell", '{"word": "x"}', "b1")
        assert done.ok
        ended.set()
        await world.settle()
        assert [hook.delivered for hook in await world.webhooks.list()] == [2, 2]


async def test_a_notice_that_could_not_be_recorded_is_recorded_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_notices, "RETRY_S", 0.01)
    async with serving_site({"/h": http_response(204)}) as there, opened(tmp_path / "w") as world:
        await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        with armed({"webhook.not_told": Fault("enospc", 1)}):
            await world.call("ring_bell", '{"word": "x"}', "b1")
            await until(lambda: there.asked)
        await world.settle()
        assert [hook.delivered for hook in await world.webhooks.list()] == [1]


async def test_no_notice_is_withdrawn_while_a_unit_that_may_wait_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_site({"/h": http_response(500)}) as there, opened(tmp_path / "w") as world:
        await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        await world.call("ring_bell", '{"word": "x"}', "b1")
        await until(lambda: there.asked)
        await world.settle()
        assert isinstance(world.backend, Embedded)
        owner = world.backend.state
        host = await owner.host()
        damaged = {Unit("demiurge/Calls@1", "b1"): Damaged("a record is damaged")}
        notices = WebhookNotices(host, owner.store, owner.clock, None)
        with monkeypatch.context() as patch:
            patch.setattr(host, "waiting", lambda of=None: ([], damaged))
            await notices.start()
        assert [hook.waiting for hook in await world.webhooks.list()] == [1]
        await notices.close()
        assert [hook.waiting for hook in await world.webhooks.list()] == [1]


async def test_a_process_that_closes_at_once_delivers_first(tmp_path: Path) -> None:
    async def slow(_asked: SeenRequest, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.write(http_response(204))

    async with serving_site({"/h": slow}) as there:
        async with opened(tmp_path / "w") as world:
            await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        async with opened(tmp_path / "w") as world:
            await world.call("ring_bell", '{"word": "x"}', "b1")
        async with opened(tmp_path / "w") as world:
            await world.settle()
            assert [hook.delivered for hook in await world.webhooks.list()] == [1]
        assert len(there.asked) == 1


async def test_a_test_is_delivered_and_says_what_is_wrong(tmp_path: Path) -> None:
    answers = {"/ok": http_response(204), "/gone": http_response(410), "/moved": http_response(302, location="/ok")}
    async with serving_site(answers) as there, opened(tmp_path / "w") as world:
        ok, gone, moved = [
            (await world.webhooks.add(f"http://127.0.0.1:{there.port}{path}")).id for path in ("/ok", "/gone", "/moved")
        ]
        assert (await world.webhooks.test(ok)).problem is None
        assert (await world.webhooks.test(gone)).problem == "The receiver answered 410 Gone."
        problem = (await world.webhooks.test(moved)).problem
        assert problem is not None
        assert "Redirects are not followed" in problem
        assert [hook.state for hook in await world.webhooks.list()] == ["active", "stopped", "active"]
        there.answers["/gone"] = http_response(204)
        await world.call("ring_bell", '{"word": "x"}', "b1")
        assert (await world.webhooks.test(gone)).problem is None
        await until(lambda: [asked.target for asked in there.asked].count("/gone") == 3)
        await world.settle()
        assert [hook.state for hook in await world.webhooks.list()] == ["active"] * 3


async def test_after_a_rotation_both_keys_sign_until_the_next(tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(204)}) as there, opened(tmp_path / "w") as world:
        first = await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        second = await world.webhooks.rotate(first.id)
        await world.webhooks.test(first.id)
        assert first.key != second.key
        for key in (first.key, second.key):
            assert verified(there.asked[-1], key)["type"] == "webhook.test"
        third = await world.webhooks.rotate(first.id)
        await world.webhooks.test(first.id)
        verified(there.asked[-1], second.key)
        verified(there.asked[-1], third.key)
        assert there.asked[-1].headers["webhook-signature"].count("v1,") == 2
        [hook] = await world.webhooks.list()
        assert hook.rotated_at_ms is not None


async def test_a_removed_webhook_is_told_nothing_and_leaves_no_key(tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(500)}) as there, opened(tmp_path / "w") as world:
        added = await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        await world.call("ring_bell", '{"word": "x"}', "b1")
        await until(lambda: there.asked)
        await world.settle()
        await world.webhooks.remove(added.id)
        await world.call("ring_bell", '{"word": "y"}', "b2")
        await world.settle()
        assert (await world.webhooks.list(), len(there.asked)) == ([], 1)
        vault = open_vault({"HOME": str(tmp_path)})
        assert vault is not None
        assert vault.names() == []
        for act in (world.webhooks.remove, world.webhooks.test, world.webhooks.rotate):
            with pytest.raises(NotFound, match="webhooks ls"):
                await act(added.id)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grant", "url", "why"),
    [
        (LOOPBACK, "http://other.example/h", "host_not_allowed"),
        (LOOPBACK, "https://127.0.0.1/h", "scheme_not_allowed"),
        ({"ports": [443]}, "https://hooks.example:8443/h", "port_not_allowed"),
        (None, "https://hooks.example/h", "no_grant"),
    ],
)
async def test_a_receiver_without_a_grant_is_refused_with_what_to_do(
    tmp_path: Path, grant: dict[str, Any] | None, url: str, why: str
) -> None:
    async with opened(tmp_path / "w", grant) as world:
        with pytest.raises(UsageError, match=f"No grant of this world covers https?://.*{why}.*docs/webhooks") as told:
            await world.webhooks.add(url)
        assert told.value.code == "not_granted"
        assert (await world.webhooks.list(), await said_of(world, "event")) == ([], [])
        vault = open_vault({"HOME": str(tmp_path)})
        assert vault is not None
        assert vault.names() == []


async def test_the_shipped_manifest_grants_https_alone(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={"HOME": str(tmp_path)}) as world:
        with pytest.raises(UsageError, match="covers ports 443; schemes https"):
            await world.webhooks.add("http://hooks.example/h")
        await world.webhooks.add("https://hooks.example/h")
        assert [hook.origin for hook in await world.webhooks.list()] == ["https://hooks.example"]


async def test_a_text_that_is_no_url_and_a_name_with_a_line_end_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        for url in ("", "ftp://127.0.0.1/x", "http://user:pw@127.0.0.1/x", "http://127.0.0.1:0/"):
            with pytest.raises(InvalidValue):
                await world.webhooks.add(url)
        with pytest.raises(InvalidValue, match="name"):
            await world.webhooks.add("http://127.0.0.1/x", "line\nend")


async def test_without_a_vault_no_webhook_is_added(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        with pytest.raises(Unavailable, match="no home folder"):
            await world.webhooks.add("https://hooks.example/h")
        assert await world.webhooks.list() == []


@pytest.mark.parametrize("role", ["viewer", "agent", "approver", "chief"])
async def test_only_a_user_sees_and_changes_webhooks(tmp_path: Path, role: str) -> None:
    async with opened(tmp_path / "w") as world:
        added = await world.webhooks.add("http://127.0.0.1:9/h")
        stranger = world.acting_as(Caller("user:eve", roles=(role,))).webhooks
        for act in (
            stranger.list(),
            stranger.add("http://127.0.0.1:9/h"),
            stranger.test(added.id),
            stranger.rotate(added.id),
            stranger.remove(added.id),
        ):
            with pytest.raises(UsageError, match="takes the role user"):
                await act
        [hook] = await world.webhooks.list()
        assert hook.attempts == 0


async def test_a_fork_delivers_nothing(tmp_path: Path) -> None:
    async with serving_site({"/h": http_response(500)}) as there:
        async with opened(tmp_path / "w") as world:
            await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
            await world.call("ring_bell", '{"word": "x"}', "b1")
            await until(lambda: there.asked)
            await world.settle()
            await world.fork(tmp_path / "fork")
        sent = len(there.asked)
        async with opened(tmp_path / "fork") as fork:
            await fork.call("ring_bell", '{"word": "y"}', "b2")
            await fork.settle()
            [hook] = await fork.webhooks.list()
            assert (hook.state, hook.problem_code) == ("stopped", "no_key")
        assert len(there.asked) == sent


async def test_a_world_without_webhooks_has_no_record_about_them(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await world.call("ring_bell", '{"word": "x"}', "b1")
        assert {head.unit for head in world.backend.read.heads()} == {"demiurge/Calls@1/b1", "sys/World@1/manifest"}


# -- other processes, and what nobody may see --------------------------------------------------------------------------


async def guest(folder: str, url: str) -> None:
    async with opened(Path(folder)) as world:
        assert not world.owned
        added = await world.webhooks.add(url)
        await world.call("ring_bell", f'{{"word": "{SECRET_WORD}"}}', "b1")
        assert (await world.webhooks.test(added.id)).problem is None
        print(added.key)


async def test_a_process_that_joined_adds_a_webhook_and_no_secret_leaves_the_vault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    folder, code = tmp_path / "w", "from tests.bootstrap import test_webhooks as t"
    async with serving_site({SECRET_PATH: http_response(204, SECRET_WORD.encode())}) as there:
        url = f"http://127.0.0.1:{there.port}{SECRET_PATH}"
        async with opened(folder) as world:
            await world.submit("sys/WebhookAdd@1", {"webhook_id": "h", "name": "n", "origin": "http://127.0.0.1:9"})
            await world.backend.serve()
            with tap_socket(socket_path(folder)) as heard:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", f"import asyncio, sys; {code}; asyncio.run(t.guest(*sys.argv[1:]))"),
                    *(str(folder), url),
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdout=asyncio.subprocess.PIPE,
                )
                printed, _ = await process.communicate()
            await until(lambda: len(there.asked) == 2)
            await world.settle()
            records = [bytes(str(record.body), "utf-8") for record in world.journal.read()]
            [hook] = [hook for hook in await world.webhooks.list() if hook.id != "h"]
            assert hook.delivered == 2
        key = printed.decode().strip()
        assert process.returncode == 0
        for asked in there.asked:
            verified(asked, key)
            assert find_values([key, SECRET_WORD], asked.body, str(asked.headers)) == []
        assert b"".join(heard).count(key.encode()) == 1, "the key is shown once"
        kept = [*bytes_below(folder), *bytes_below(tmp_path / ".local"), *bytes_below(tmp_path / ".config")]
        assert find_values([key, SECRET_PATH], *kept, *records, caplog.text) == []
