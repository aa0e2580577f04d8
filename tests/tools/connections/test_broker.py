"""Credentials go to the one call that may have them, fresh, and are sealed in between."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from demiurge.errors import Damaged, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.stores.connection_store import MemoryConnectionStore
from demiurge.tools import (
    Connection,
    ConnectionBroker,
    ConnectionGrant,
    Credentials,
    KeyRing,
    SealedConnection,
    ToolFailure,
)
from demiurge.tools.connections.broker import REFRESH_MARGIN_MS, Refresh
from demiurge.values.clock import FixedClock

KEYS = KeyRing({"v1": bytes(32)})
NOW_MS = 1_000_000_000_000
SOON = NOW_MS + REFRESH_MARGIN_MS
LATER = SOON + 1
CANARY = "canary-51c3-token"


class Desk:
    """A broker on a clock that stands still, with its store."""

    def __init__(self, refresh: Refresh | None = None, keys: KeyRing = KEYS, **options: Any) -> None:
        self.clock = FixedClock(NOW_MS * 1_000_000)
        self.store = MemoryConnectionStore()
        renew = {} if refresh is None else {"github": refresh}
        self.broker = ConnectionBroker(self.store, keys, refresh=renew, clock=self.clock, **options)

    def add(self, token: str = CANARY, tenant: str = "ba_1", provider: str = "github", **options: Any) -> Connection:
        return self.broker.add(tenant=tenant, provider=provider, credentials=Credentials(token, **options))

    async def token(self, connection_id: str, tenant: str = "ba_1") -> str:
        async with self.broker.lease(connection_id, tenant=tenant, actor="user:1") as auth:
            return auth.get_access_token()

    def row(self, connection: Connection) -> SealedConnection:
        row = self.store.get(connection.id)
        assert row is not None
        return row


async def test_an_added_connection_is_sealed_and_can_be_lent() -> None:
    desk = Desk()
    made = desk.broker.add(
        tenant="ba_1",
        provider="github",
        credentials=Credentials(CANARY, refresh_token="r", expires_at_ms=LATER),
        scopes=["repo", "user"],
    )
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", made.id)
    assert made == Connection(made.id, "github", "oauth2", "ba_1", ("repo", "user"), LATER, None, "v1")
    assert CANARY.encode() not in desk.row(made).sealed
    async with desk.broker.lease(made.id, tenant="ba_1", actor="user:1") as auth:
        assert auth.get_access_token() == CANARY
        assert auth.get_auth_headers() == {"Authorization": f"Bearer {CANARY}"}


def test_a_tenant_sees_its_own_connections_the_revoked_ones_too() -> None:
    desk = Desk()
    one, _, two = desk.add(), desk.add(tenant="ba_2"), desk.add()
    desk.broker.revoke(one.id)
    assert desk.broker.list("ba_1") == (replace(one, revoked_at_ms=NOW_MS), two)
    assert desk.broker.list("ba_3") == ()


@pytest.mark.parametrize(
    "names", [{"tenant": ""}, {"tenant": "a\nb"}, {"provider": "x" * 257}, {"credential_type": ""}, {"scopes": "repo"}]
)
def test_names_that_are_none_are_refused(names: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as caught:
        Desk().broker.add(**{"tenant": "t", "provider": "p", "credentials": Credentials(CANARY), **names})
    assert caught.value.path == next(iter(names))


async def test_a_connection_that_is_missing_revoked_or_of_another_tenant_is_not_found_in_the_same_words() -> None:
    desk = Desk()
    ours, theirs, revoked = desk.add(), desk.add(tenant="ba_2"), desk.add()
    desk.broker.revoke(revoked.id)
    errors = []
    for connection_id, tenant in (
        ("00000000-0000-4000-8000-000000000000", "ba_1"),
        (theirs.id, "ba_1"),
        (revoked.id, "ba_1"),
        (ours.id, ""),
    ):
        with pytest.raises(NotFound) as caught:
            await desk.token(connection_id, tenant)
        errors.append((caught.value.code, caught.value.message))
    assert set(errors) == {("connection_not_found", "There is no such connection.")}


def test_a_revoked_connection_keeps_no_credentials_and_its_first_date() -> None:
    desk = Desk()
    made = desk.add()
    desk.broker.revoke(made.id, tenant="ba_1")
    desk.clock.advance(1_000_000)
    desk.broker.revoke(made.id)
    assert desk.row(made) == SealedConnection(replace(made, revoked_at_ms=NOW_MS), b"")


def test_only_its_tenant_revokes_a_connection() -> None:
    desk = Desk()
    made = desk.add()
    for connection_id, tenant in ((made.id, "ba_2"), ("other", "ba_1"), ("other", None)):
        with pytest.raises(NotFound):
            desk.broker.revoke(connection_id, tenant=tenant)
    assert desk.row(made).connection.revoked_at_ms is None


# what is at rest


async def test_a_row_that_was_tampered_with_is_a_typed_error_without_a_word_why() -> None:
    desk = Desk()
    made, other = desk.row(desk.add()), desk.row(desk.add("another-token"))
    changed = bytearray(made.sealed)
    changed[20] ^= 1
    for row in (
        replace(made, sealed=bytes(changed)),
        replace(made, sealed=other.sealed),
        replace(made, connection=replace(made.connection, tenant="ba_2")),
        replace(made, connection=replace(made.connection, provider="gitlab")),
        replace(made, connection=replace(made.connection, key_id="v9")),
        replace(made, sealed=b""),
    ):
        assert desk.store.swap(desk.row(made.connection), row)
        with pytest.raises(Damaged) as caught:
            await desk.token(made.connection.id, row.connection.tenant)
        error = caught.value
        assert (error.code, error.message) == (
            "sealed",
            "The stored credentials can't be decrypted with these keys. Restore the missing key.",
        )
        assert error.__cause__ is error.__context__ is None


async def test_a_date_in_the_row_is_only_for_people_what_counts_is_sealed() -> None:
    desk = Desk()
    made = desk.row(desk.add(expires_at_ms=NOW_MS))
    desk.store.swap(made, replace(made, connection=replace(made.connection, expires_at_ms=None)))
    with pytest.raises(Unavailable):
        await desk.token(made.connection.id)


async def test_rotation_seals_all_under_the_newest_key_and_old_keys_can_go() -> None:
    desk = Desk()
    one, two, gone = desk.add(), desk.add("token-two", tenant="ba_2"), desk.add()
    desk.broker.revoke(gone.id)
    both = KeyRing({"v1": bytes(32), "v2": "5a" * 32})
    broker = ConnectionBroker(desk.store, both, clock=desk.clock)
    assert (broker.rotate(), broker.rotate()) == (2, 0)
    assert {row.connection.key_id for row in desk.store.list()} == {"v1", "v2"}  # the revoked one holds nothing
    desk.broker = ConnectionBroker(desk.store, KeyRing({"v2": "5a" * 32}), clock=desk.clock)
    assert await desk.token(one.id) == CANARY
    assert await desk.token(two.id, "ba_2") == "token-two"


class SlowStore(MemoryConnectionStore):
    """One whose every answer needs the event loop to go on meanwhile."""

    blocking = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop, self.in_time = loop, list[bool]()

    def _wait(self) -> None:
        went_on = threading.Event()
        self.loop.call_soon_threadsafe(went_on.set)
        self.in_time.append(went_on.wait(5))

    def get(self, connection_id: str) -> SealedConnection | None:
        self._wait()
        return super().get(connection_id)

    def swap(self, old: SealedConnection, new: SealedConnection) -> bool:
        self._wait()
        return super().swap(old, new)


async def test_a_store_that_waits_does_not_hold_up_the_event_loop() -> None:
    desk = Desk()
    desk.store = SlowStore(asyncio.get_running_loop())
    desk.broker = ConnectionBroker(desk.store, KEYS, refresh={"github": lambda one, old: new()}, clock=desk.clock)
    made = desk.add(expires_at_ms=0)
    assert await desk.token(made.id) == "fresh-token"
    assert desk.store.in_time == [True] * 4


def test_rotation_does_what_it_can_and_then_says_what_it_could_not() -> None:
    desk = Desk()
    bad, good = desk.row(desk.add()), desk.add()
    desk.store.swap(bad, replace(bad, sealed=bytes(60)))
    broker = ConnectionBroker(desk.store, KeyRing({"v1": bytes(32), "v2": "5a" * 32}))
    with pytest.raises(Damaged):
        broker.rotate()
    assert desk.row(good).connection.key_id == "v2"


# leases


async def test_a_lease_is_void_before_and_after() -> None:
    desk = Desk()
    made = desk.add()
    lease = desk.broker.lease(made.id, tenant="ba_1", actor="user:1")
    async with lease as auth:
        headers = auth.get_auth_headers
        assert headers() == {"Authorization": f"Bearer {CANARY}"}
    for ask in (auth.get_access_token, headers):
        with pytest.raises(ToolFailure) as caught:
            ask()
        assert caught.value.code == "connection_unavailable"
    with pytest.raises(UsageError):
        await lease.open()


async def test_a_lease_that_was_closed_unused_stays_closed() -> None:
    desk = Desk()
    lease = desk.broker.lease(desk.add().id, tenant="ba_1", actor="user:1")
    lease.close()
    with pytest.raises(UsageError):
        await lease.open()


async def test_a_lease_is_closed_when_its_block_fails() -> None:
    desk = Desk()
    made, kept = desk.add(), []

    async def fails() -> None:
        async with desk.broker.lease(made.id, tenant="ba_1", actor="user:1") as auth:
            kept.append(auth)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await fails()
    with pytest.raises(ToolFailure):
        kept[0].get_access_token()


async def test_nothing_is_cached_between_leases() -> None:
    desk = Desk()
    made = desk.add()
    assert await desk.token(made.id) == CANARY
    desk.broker.revoke(made.id)
    with pytest.raises(NotFound):
        await desk.token(made.id)


async def test_two_leases_at_once_are_two() -> None:
    desk = Desk()
    one, two = desk.add("token-one"), desk.add("token-two", tenant="ba_2")
    async with (
        desk.broker.lease(one.id, tenant="ba_1", actor="a") as first,
        desk.broker.lease(two.id, tenant="ba_2", actor="b") as second,
    ):
        assert (first.get_access_token(), second.get_access_token()) == ("token-one", "token-two")


# refresh


def new(token: str = "fresh-token", expires_at_ms: int | None = LATER, **options: Any) -> Credentials:
    return Credentials(token, expires_at_ms=expires_at_ms, **options)


class Provider:
    """Gives `answer` for a refresh, when it is let go; notes what it was asked with."""

    def __init__(self, answer: Credentials | None = None, wait: bool = False) -> None:
        self.answer = answer if answer is not None else new()
        self.asked: list[tuple[str, str | None]] = []
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        if not wait:
            self.let_go.set()

    async def __call__(self, connection: Connection, old: Credentials) -> Credentials:
        self.asked.append((connection.id, old.refresh_token.reveal() if old.refresh_token else None))
        self.begun.set()
        await self.let_go.wait()
        return self.answer


@pytest.mark.parametrize(("expires_at_ms", "renewed"), [(LATER, 0), (SOON, 1), (NOW_MS, 1), (0, 1), (None, 0)])
async def test_a_token_is_refreshed_from_five_minutes_before_its_end(expires_at_ms: int | None, renewed: int) -> None:
    provider = Provider()
    desk = Desk(provider)
    made = desk.add(refresh_token="again", expires_at_ms=expires_at_ms)
    assert await desk.token(made.id) == ("fresh-token" if renewed else CANARY)
    assert provider.asked == [(made.id, "again")] * renewed


async def test_refreshed_credentials_are_stored_with_the_refresh_token() -> None:
    provider = Provider()
    desk = Desk(provider)
    made = desk.add(refresh_token="again", expires_at_ms=NOW_MS)
    await desk.token(made.id)
    assert desk.row(made).connection == replace(made, expires_at_ms=LATER)
    provider.answer = new("third-token", refresh_token="and again")
    desk.clock.advance(REFRESH_MARGIN_MS * 1_000_000)
    assert await desk.token(made.id) == "third-token"
    desk.clock.advance(REFRESH_MARGIN_MS * 1_000_000)
    provider.answer = new(expires_at_ms=None)
    await desk.token(made.id)
    assert [refresh_token for _, refresh_token in provider.asked] == ["again", "again", "and again"]


async def test_a_plain_function_refreshes_in_a_thread() -> None:
    threads: list[threading.Thread] = []

    def renew(connection: Connection, old: Credentials) -> Credentials:
        threads.append(threading.current_thread())
        return new()

    desk = Desk(renew)
    assert await desk.token(desk.add(expires_at_ms=0).id) == "fresh-token"
    assert threads[0] is not threading.current_thread()
    assert CANARY not in threads[0].name


async def test_a_plain_function_may_give_something_to_wait_for() -> None:
    async def later() -> Credentials:
        return new()

    desk = Desk(lambda connection, old: later())
    assert await desk.token(desk.add(expires_at_ms=0).id) == "fresh-token"


async def test_twenty_calls_at_once_refresh_once() -> None:
    provider = Provider(wait=True)
    desk = Desk(provider)
    made, other = desk.add(expires_at_ms=0), desk.add("other-token", expires_at_ms=0)
    calls = [asyncio.create_task(desk.token(made.id)) for _ in range(20)]
    await provider.begun.wait()
    calls += [asyncio.create_task(desk.token(other.id)) for _ in range(20)]
    await asyncio.sleep(0)
    provider.let_go.set()
    assert await asyncio.gather(*calls) == ["fresh-token"] * 40
    assert sorted(provider.asked) == sorted([(made.id, None), (other.id, None)])


def test_calls_from_many_threads_refresh_once() -> None:
    asked = []

    def renew(connection: Connection, old: Credentials) -> Credentials:
        asked.append(connection.id)
        return new()

    desk = Desk(renew)
    made = desk.add(expires_at_ms=0)
    with ThreadPoolExecutor(20) as pool:
        tokens = list(pool.map(lambda _: asyncio.run(desk.token(made.id)), range(20)))
    assert (tokens, len(asked)) == (["fresh-token"] * 20, 1)


async def refresh_that_fails(connection: Connection, old: Credentials) -> Credentials:
    raise RuntimeError(f"invalid_grant {CANARY} {old.access_token.reveal()}")


async def gives_none(connection: Connection, old: Credentials) -> Any:
    return {"access_token": CANARY}


async def gives_a_stale_one(connection: Connection, old: Credentials) -> Credentials:
    return new(expires_at_ms=NOW_MS)


async def refresh_that_exits(connection: Connection, old: Credentials) -> Credentials:
    raise SystemExit(CANARY)


@pytest.mark.parametrize("refresh", [refresh_that_fails, gives_none, gives_a_stale_one, refresh_that_exits])
@pytest.mark.parametrize("expires_at_ms", [0, NOW_MS, NOW_MS + 1])
async def test_a_refresh_that_fails_gives_no_stale_token(
    refresh: Refresh, expires_at_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = Desk(refresh)
    made = desk.add(refresh_token="again", expires_at_ms=expires_at_ms)
    with pytest.raises(Unavailable) as caught:
        await desk.token(made.id)
    error = caught.value
    assert (error.code, error.__cause__, error.__context__) == ("connection_unavailable", None, None)
    assert CANARY not in caplog.text + str(error)


async def test_a_refresh_that_hangs_is_given_up_and_can_be_tried_again() -> None:
    provider = Provider(wait=True)
    desk = Desk(provider, refresh_timeout=0.01)
    made = desk.add(expires_at_ms=0)
    with pytest.raises(Unavailable, match="expired"):
        await desk.token(made.id)
    provider.let_go.set()
    while desk.broker.list("ba_1")[0].expires_at_ms != LATER:
        try:
            assert await desk.token(made.id) == "fresh-token"
        except Unavailable:  # the first one is still being put away
            await asyncio.sleep(0)


async def test_a_caller_in_a_hurry_gives_up_and_the_refresh_goes_on() -> None:
    provider = Provider(wait=True)
    desk = Desk(provider)
    made = desk.add(expires_at_ms=0)
    hurried = desk.broker.lease(made.id, tenant="ba_1", actor="a", wait_ms=1)
    with pytest.raises(Unavailable):
        await hurried.open()
    patient = asyncio.create_task(desk.token(made.id))
    await asyncio.sleep(0)
    provider.let_go.set()
    assert await patient == "fresh-token"
    assert len(provider.asked) == 1


async def test_a_cancelled_caller_does_not_lose_the_new_refresh_token() -> None:
    provider = Provider(new(refresh_token="rotated"), wait=True)
    desk = Desk(provider)
    made = desk.add(refresh_token="again", expires_at_ms=0)
    call = asyncio.create_task(desk.token(made.id))
    await provider.begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    provider.let_go.set()
    assert await desk.token(made.id) == "fresh-token"
    assert len(provider.asked) == 1


async def test_without_a_way_to_renew_it_a_token_serves_until_it_expires() -> None:
    desk = Desk()
    made = desk.add(expires_at_ms=NOW_MS + 1)
    assert await desk.token(made.id) == CANARY
    desk.clock.advance(1_000_000)
    with pytest.raises(Unavailable):
        await desk.token(made.id)


async def interrupted(
    desk: Desk, made: Connection, meanwhile: Callable[[], object], provider: Provider
) -> Awaitable[str]:
    call = asyncio.create_task(desk.token(made.id))
    await provider.begun.wait()
    meanwhile()
    provider.let_go.set()
    return call


async def test_a_connection_that_is_revoked_during_its_refresh_stays_revoked() -> None:
    provider = Provider(wait=True)
    desk = Desk(provider)
    made = desk.add(expires_at_ms=0)
    call = await interrupted(desk, made, lambda: desk.broker.revoke(made.id), provider)
    with pytest.raises(NotFound):
        await call
    assert desk.row(made).sealed == b""


async def test_a_rotation_during_a_refresh_loses_nothing_of_it() -> None:
    provider = Provider(new(refresh_token="rotated"), wait=True)
    desk = Desk(provider, keys=KeyRing({"v1": bytes(32), "v2": "5a" * 32}))
    old = Desk()
    made = old.add(expires_at_ms=0)
    desk.store.add(old.row(made))
    call = await interrupted(desk, made, desk.broker.rotate, provider)
    assert await call == "fresh-token"
    assert desk.row(made).connection == replace(made, expires_at_ms=LATER, key_id="v2")
    provider.answer = new(expires_at_ms=None)
    desk.clock.advance(REFRESH_MARGIN_MS * 1_000_000)
    await desk.token(made.id)
    assert [refresh_token for _, refresh_token in provider.asked] == [None, "rotated"]


@pytest.mark.parametrize("ours_fails", [True, False])
async def test_credentials_that_another_process_refreshed_meanwhile_are_used(ours_fails: bool) -> None:
    provider = Provider(new("our-token"), wait=True)
    desk = Desk(provider)
    made = desk.add(expires_at_ms=0)
    if ours_fails:
        provider.answer = None  # type: ignore[assignment]

    def elsewhere() -> None:
        other = Desk()
        row = other.row(other.broker.add(tenant="ba_1", provider="github", credentials=new("their-token")))
        packed = KEYS.open("v1", row.sealed, row.connection.binding)
        sealed = KEYS.seal(packed, made.binding, Sure())
        assert desk.store.swap(desk.row(made), SealedConnection(replace(made, expires_at_ms=LATER), sealed))

    assert await (await interrupted(desk, made, elsewhere, provider)) == "their-token"
    assert await desk.token(made.id) == "their-token"


class Sure:
    def token(self, n: int) -> bytes:
        return b"\7" * n


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(seconds: float) -> None:
    with pytest.raises(InvalidValue):
        ConnectionBroker(MemoryConnectionStore(), KEYS, refresh_timeout=seconds)


# access


def test_only_connections_that_are_granted_and_declared_are_permitted() -> None:
    broker = Desk().broker
    access = broker.access(granted=["a", ConnectionGrant("b")], declared=["b", "c"])
    assert [name for name in ("a", "b", "c", "d", "", None, 3, ["b"]) if access.permits(name)] == ["b"]
    for empty in (
        broker.access(),
        broker.access(granted=["a"]),
        broker.access(declared=["a"]),
        broker.access(granted=["a"], declared=[]),
        broker.access(granted=[], declared=["a"]),
    ):
        assert not empty.permits("a")


@pytest.mark.parametrize("which", ["granted", "declared"])
def test_one_text_is_no_list(which: str) -> None:
    with pytest.raises(InvalidValue):
        Desk().broker.access(**{which: "a"})


@pytest.mark.parametrize(
    ("ends", "lasts"), [([NOW_MS], False), ([NOW_MS + 1], True), ([0, NOW_MS + 1], True), ([0, None], True)]
)
def test_a_grant_ends_and_the_longest_counts(ends: list[int | None], lasts: bool) -> None:
    for order in (ends, ends[::-1]):
        grants = [ConnectionGrant("a", end) for end in order]
        assert Desk().broker.access(granted=grants, declared=["a"]).permits("a") is lasts


async def test_a_grant_that_ends_in_between_gives_no_lease() -> None:
    desk = Desk()
    made = desk.add()
    access = desk.broker.access(granted=[ConnectionGrant(made.id, NOW_MS + 1)], declared=[made.id])
    assert access.permits(made.id)
    async with access.lease(made.id, tenant="ba_1", actor="a") as auth:
        assert auth.get_access_token() == CANARY
    desk.clock.advance(1_000_000)
    with pytest.raises(ToolFailure) as caught:
        access.lease(made.id, tenant="ba_1", actor="a")
    assert caught.value.code == "policy_denied"


async def test_a_lease_is_logged_without_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    desk = Desk()
    made = desk.add()
    async with desk.broker.lease(made.id, tenant="ba_1", actor="user:7\nforged"):
        pass
    assert [record.message for record in caplog.records] == [
        f"connection {made.id} is lent to 'user:7\\nforged' of 'ba_1'"
    ]
