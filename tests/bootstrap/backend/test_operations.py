"""The operations of a backend: derived from the declarations, guarded by role, the same over the socket."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolPolicy, World
from demiurge.bootstrap.backend.calls import KeepCalls, ReadCalls, RunCalls
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.keeping import Keeping
from demiurge.bootstrap.backend.operations import OPERATIONS, Operation
from demiurge.bootstrap.backend.reading import Reading
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.running import Running
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.bootstrap.manifest_change import POLICY_SET, ManifestChange
from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.values.caller import ROLES, USER, Caller
from demiurge.world.history.verify import Verified
from demiurge.world.retention.garbage import Garbage

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "run.submit": ("s", {}, None, None),
    "run.settle": (None,),
    "run.watch": (None,),
    "run.settling": (None,),
    "run.ask_call": ("mcp-0-0-0", "me", "core__ask_user", "{}"),
    "run.leave_call": ("mcp-0-0-0", "me", False),
    "run.own_request": ("mcp-0-0-0",),
    "run.answer_own": ("00", {}),
    "run.complete_argument": ("mcp__s__prompt", "city", "a", {}),
    "run.follow_resource": ("mcp__s__resource", "note://one"),
    "run.decide": ("00", True, ""),
    "run.answer": ("00", "Rome"),
    "run.allow": ("00", None, 1, 1.0, ""),
    "run.forget_rule": ("r",),
    "run.settle_doubt": ("00", True, "why", None),
    "run.cancel": ("u", ""),
    "run.add_connection": ("c", {}),
    "run.revoke_connection": ("c", ""),
    "run.choose_connection": ("u", None, None),
    "run.submit_review": ("sys/IssueComment@1", {"issue": "i", "body": "x", "action": None, "by": None}),
    "read.proposal": ("p",),
    "read.approved_document": ("sha256:",),
    "read.issue": ("i",),
    "run.add_webhook": ("https://x.example", ""),
    "run.remove_webhook": ("h",),
    "run.rotate_webhook": ("h",),
    "run.test_webhook": ("h",),
    "run.add_mcp_server": ({},),
    "run.remove_mcp_server": ("s",),
    "run.refresh_mcp_server": ("s",),
    "run.trust_mcp_tools": ("s", None, "ask", None, [], {}),
    "run.untrust_mcp_tools": ("s", None),
    "run.adopt_mcp_server": ("s", "00"),
    "read.mcp_server": ("s",),
    "run.put_blob": (b"x",),
    "read.budgets": (["demiurge/Demiurge@1/main"],),
    "read.state": ("m", "k"),
    "read.keys": ("m",),
    "read.get_blob": ("sha256:",),
    "read.get_blobs": (["sha256:"],),
    "read.message": ("sha256:",),
    "read.records": (None, 0, 1),
    "read.rows": (None, 0, 1),
    "read.attempts": (["00"],),
    "keep.add_token": ("00", "user:ada", ["viewer"], "", "", False, None),
    "keep.revoke_token": ("t",),
    "keep.fork": ("/x", None),
    "keep.gc": (1.0, True),
    "keep.erase": (["sha256:"], "why", [], True),
    "keep.archive": (None, 1.0, True),
    "keep.prove": (1,),
    "keep.replace_manifest": (ManifestChange(POLICY_SET, policy=ToolPolicy()),),
    "keep.adopt": ("sha256:",),
    "keep.hand_over": (ManifestChange(POLICY_SET, policy=ToolPolicy()),),
}


def no_successor() -> Any:
    raise Conflict("Nobody takes over.", code="gone")


def test_every_declared_call_is_an_operation_and_is_answered_in_one_place() -> None:
    groups = (("run", RunCalls, Running), ("read", ReadCalls, Reading), ("keep", KeepCalls, Keeping))
    declared = {
        f"{group}.{name}": answers
        for group, calls, answers in groups
        for name in vars(calls)
        if not name.startswith("_")
    }
    assert set(declared) == set(OPERATIONS)
    for name, operation in OPERATIONS.items():
        found = getattr(declared[name], operation.function.__name__)
        assert inspect.signature(found) == inspect.signature(operation.function), name


def test_every_role_that_a_call_asks_for_is_a_known_one() -> None:
    for name, operation in OPERATIONS.items():
        assert operation.roles, name
        assert set(operation.roles) <= set(ROLES), name


def test_only_reads_holds_for_reads_checks_and_dry_runs() -> None:
    """The others wait for an owner that gives no sign of life."""
    reads = {name for name, each in OPERATIONS.items() if each.only_reads(each.bound(*ARGUMENTS.get(name, ())))}
    dry_runs = {"keep.gc", "keep.erase", "keep.archive"}
    checks = {"keep.replay", "keep.verify", "keep.seal", "keep.prove", "keep.tokens"}
    assert reads == {name for name in OPERATIONS if name.startswith("read.")} | checks | dry_runs | {"run.watch"}
    for name, args in (
        ("gc", (1.0, False)),
        ("erase", (["sha256:"], "why", [], False)),
        ("archive", (None, 1.0, False)),
    ):
        assert not OPERATIONS[f"keep.{name}"].only_reads(args)


def operation_pattern(name: str) -> str:
    """A process that joined settles by watching until it is done."""
    return {"run.settle": r"run\.settl(e|ing)"}.get(name, name)


async def make_call(operation: Operation, call: Any, args: tuple[Any, ...]) -> Any:
    """Returns the result of a call; of a call that streams, its first frame."""
    if operation.kind == "stream":
        return await anext(call(*args))
    return await (call(*args) if operation.kind == "later" else asyncio.to_thread(call, *args))


@pytest.mark.parametrize("joined", [False, True])
async def test_a_caller_without_a_role_is_refused_by_every_operation(tmp_path: Path, joined: bool) -> None:
    stranger = Caller("stranger", roles=("cook",))
    async with World.open(tmp_path / "w", environment={}) as world:
        backend = Remote(OwnerConnection(socket_path(tmp_path / "w"), no_successor)) if joined else world.backend
        for name, operation in OPERATIONS.items():
            call = getattr(getattr(backend.of(stranger), operation.group), operation.function.__name__)
            args = ARGUMENTS.get(name, ())
            with pytest.raises(
                UsageError, match=f"stranger .cook. may not call {operation_pattern(name)}: it takes the role"
            ) as refused:
                await make_call(operation, call, args)
            assert refused.value.code == "role_missing"


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("viewer", {"read.keys", "read.records"}, {"run.submit", "run.decide", "keep.gc", "read.rows", "keep.prove"}),
        ("agent", {"run.submit", "read.keys", "read.get_blob"}, {"run.decide", "keep.erase"}),
        ("approver", {"run.decide", "read.approvals"}, {"run.submit", "keep.archive", "read.rows", "keep.prove"}),
        ("chief", {"read.keys", "read.rows"}, {"run.submit", "run.decide", "keep.fork"}),
        ("user", set(OPERATIONS), set()),
    ],
)
def test_each_role_may_call_only_its_operations(role: str, may: set[str], may_not: set[str]) -> None:
    allowed = {name for name, operation in OPERATIONS.items() if Caller("ada", roles=(role,)).has(*operation.roles)}
    assert may <= allowed
    assert not may_not & allowed


async def test_the_caller_is_kept_in_the_record_of_what_was_asked(tmp_path: Path) -> None:
    ada = Caller("user:ada", "shop", ("agent",), "http")
    value = {"title": "t", "created_at_ms": 1}
    async with World.open(tmp_path / "w", environment={}) as world:
        joined = World(Remote(OwnerConnection(socket_path(tmp_path / "w"), no_successor), ada), world.opening)
        for chat, asks, caller in (("a", world, USER), ("b", world.acting_as(ada), ada), ("c", joined, ada)):
            assert asks.caller == caller
            accepted = await asks.submit("demiurge/ChatCreated@1", {**value, "chat_id": chat})
            assert next(world.journal.read(accepted.unit)).stamp.caller == caller


async def test_dataclasses_travel_as_dataclasses(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        remote = Remote(OwnerConnection(socket_path(tmp_path / "w"), no_successor))
        found = await remote.keep.gc(1.0, True)
        assert isinstance(found, Garbage)
        assert found == await world.gc(1.0, dry_run=True)
        verified = await asyncio.to_thread(remote.keep.verify)
        assert isinstance(verified, Verified)
        assert verified == world.journal.verify()


async def test_of_a_change_of_the_manifest_everything_but_code_travels(tmp_path: Path) -> None:
    async with World.open(tmp_path / "w", environment={}) as world:
        remote = Remote(OwnerConnection(socket_path(tmp_path / "w"), no_successor))
        policy = ToolPolicy(allowed_tools=("core__get_current_time",))
        await remote.keep.replace_manifest(ManifestChange(POLICY_SET, policy=policy))
        assert ToolPolicy.from_json(world.manifest()["tool_policy"]) == policy


@pytest.mark.parametrize("node", ["sha256:00", {"how": "manifest set"}, {"how": "opened with"}, {}])
def test_a_value_that_is_no_change_of_a_manifest_is_refused(node: object) -> None:
    with pytest.raises(InvalidValue, match="does not take these arguments"):
        OPERATIONS["keep.replace_manifest"].load_arguments([node])


def test_arguments_of_another_form_are_refused() -> None:
    operation = OPERATIONS["run.decide"]
    for given in (None, "{}"):
        assert operation.load_arguments(["x", True, "why", given]) == ["x", True, "why", given]
    for args in (
        [],
        ["x", True],
        ["x", True, "why"],
        ["x", True, "why", 1],
        ["x", "perhaps", "why", None],
        ["x", "yes", "why", None],
        ["x", 1, "why", None],
        [1, True, "why", None],
    ):
        with pytest.raises(InvalidValue, match=r"run\.decide"):
            operation.load_arguments(args)
