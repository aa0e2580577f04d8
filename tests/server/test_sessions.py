"""A browser's session, whole: the cookie, what it says of the caller, and its end."""

from __future__ import annotations

import asyncio
import errno
import logging
from importlib.metadata import version

import pytest
from tests.server.conftest import Served

from demiurge.errors import Unavailable
from demiurge.server.app import _go_on
from demiurge.server.callers import csrf_of
from demiurge.server.options import address_refused


async def test_a_login_sets_a_cookie_for_a_month_that_only_this_server_reads(served: Served) -> None:
    secret = (await served.world.tokens.add("user:ada", ["approver"], tenant="north")).secret
    name = f"demiurge_{served.app.state.options.port}"
    async with served.browser() as browser:
        answer = await browser.post("/api/login", json={"token": secret})
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["set-cookie"] == f"{name}={secret}; HttpOnly; Max-Age=2592000; Path=/; SameSite=strict"
        caller = (await browser.get("/api/session")).json()
        assert caller == {
            "actor": "user:ada",
            "tenant": "north",
            "roles": ["approver"],
            "provider": "openai-responses",
            "model": served.world.choice.model,
            "csrf": csrf_of(secret),
        }
        left = await browser.post("/api/logout", headers={"x-demiurge-csrf": caller["csrf"]})
        assert (left.status_code, left.content) == (204, b"")
        cleared = left.headers["set-cookie"]
        assert cleared.startswith(f'{name}=""; expires=')
        assert cleared.endswith("; Max-Age=0; Path=/; SameSite=lax")
        assert (await browser.get("/api/session")).status_code == 401
    user = await served.client()
    assert (await user.get("/api/session", headers={"authorization": f"Bearer {secret}"})).status_code == 200


async def test_the_session_of_a_login_link_ends_with_a_logout(served: Served) -> None:
    async with served.browser() as browser:
        answer = await browser.get(served.server.new_login_link())
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        csrf = (await browser.get("/api/session")).json()["csrf"]
        cookies = dict(browser.cookies)
        await browser.post("/api/logout", headers={"x-demiurge-csrf": csrf})
        browser.cookies.update(cookies)
        assert (await browser.get("/api/session")).status_code == 401


async def test_the_server_says_that_it_answers_to_anybody(served: Served) -> None:
    async with served.browser() as browser:
        answer = await browser.get("/api/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": version("demiurge-runtime")})


def test_open_pages_go_on_after_an_update_of_the_server() -> None:
    """A browser may send the value of a cookie that an earlier version of the server set."""
    assert csrf_of("secret") == "a33e37c855ff0fd48638ca35f31ab33602e0dea7f25d83cfe523e0cbb6d3be17"


def test_an_address_that_cannot_be_had_is_told_with_its_reason() -> None:
    taken = address_refused(OSError(errno.EADDRINUSE, "in use"), "127.0.0.1", 7777)
    assert (taken.code, taken.message) == ("port_taken", "Port 7777 of 127.0.0.1 is taken; say another with --port.")
    other = address_refused(OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"), "10.0.0.9", 7777)
    assert (other.code, other.message) == ("bad_address", "10.0.0.9: Cannot assign requested address.")


async def test_a_world_that_cannot_go_on_is_a_warning_of_the_log(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise Unavailable("The disk is full.")

    monkeypatch.setattr(served.world, "settle", fails)
    await _go_on(served.world)
    [record] = [record for record in caplog.records if record.name == "demiurge.server.app"]
    assert (record.levelno, record.getMessage()) == (
        logging.WARNING,
        "What is open in this world cannot go on: The disk is full.",
    )


async def test_a_server_that_stops_while_its_world_goes_on_logs_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served.world, "settle", asyncio.Event().wait)
    going_on = asyncio.create_task(_go_on(served.world))
    await asyncio.sleep(0)
    going_on.cancel()
    await going_on
    assert [record for record in caplog.records if record.name == "demiurge.server.app"] == []
