"""A planted token of a connection goes to the handler that asks for it, and handlers do with it what they should not.

Searched are: every object that a call touches, what it hands back, emits, records and traces, pickles, and the bytes on
disk.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import Traces

from demiurge.stores.sqlite.connection_store import SqliteConnectionStore
from demiurge.tools import (
    AuthCapability,
    ConnectionBroker,
    Credentials,
    KeyRing,
    Redaction,
    RunSummary,
    SpanSink,
    Tool,
    ToolContext,
    ToolExecResult,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolSpan,
    ToolUserError,
    event_to_json,
)
from demiurge.tools.ledger.ledger import EffectLedger
from demiurge.values.clock import FixedClock

NOW_MS = 1_000_000_000_000


TOKEN, FRESH, REFRESH = "canary-access-4f1e", "canary-fresh-77b2", "canary-refresh-09c3"


PLANTED = {"access token": TOKEN, "renewed token": FRESH, "refresh token": REFRESH}
ADA = ToolPolicyContext(run_id="r1", actor="user:ada", tenant="ba_1")


def assert_clean(*texts: str | bytes) -> None:
    assert Traces(PLANTED, {"text": texts}).leaks() == []


def walk(thing: Any) -> Iterator[Any]:
    """The thing and all that can be reached from it by attributes, items and slots."""
    seen: dict[int, Any] = {}
    todo = [thing]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | logging.Logger):
            continue
        seen[id(thing)] = thing
        yield thing
        if isinstance(thing, Mapping):
            todo += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            todo += thing
        todo += vars(thing).values() if hasattr(thing, "__dict__") else ()
        slots = {name for kind in type(thing).__mro__ for name in _texts(getattr(kind, "__slots__", ()))}
        todo += [getattr(thing, name) for name in slots if hasattr(thing, name)]


def _texts(names: str | Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


def texts_of(*things: Any) -> list[bytes | str]:
    """Returns the texts of the things and of all that can be reached from them, as they are and as they are shown."""
    found: list[bytes | str] = []
    for reached in (reached for thing in things for reached in walk(thing)):
        found += [reached] if isinstance(reached, str | bytes) else []
        found += [repr(reached), str(reached)]
    return found


def assert_walks_clean(*things: Any) -> None:
    assert_clean(*texts_of(*things))


class WatchedRunner:
    """A runner over one tool with one connection, and everything that watches it."""

    def __init__(self, folder: Path, handler: Callable[..., Any], refresh: Any = None, **options: Any) -> None:
        self.path = folder / "connections.db"
        self.store = SqliteConnectionStore(self.path)
        self.clock = FixedClock(NOW_MS * 1_000_000)
        renew = {"github": refresh} if refresh is not None else {}
        keys = KeyRing({"v1": bytes(range(32))})
        self.broker = ConnectionBroker(self.store, keys, refresh=renew, clock=self.clock)
        credentials = Credentials(TOKEN, refresh_token=REFRESH, expires_at_ms=NOW_MS if renew else None)
        self.mine = self.broker.add(tenant="ba_1", provider="github", credentials=credentials)
        self.events: list[Any] = []
        self.spans: list[ToolSpan] = []
        self.ledger = EffectLedger()
        self.access = self.broker.access(granted=[self.mine.id], declared=[self.mine.id])
        settings: dict[str, Any] = {"redaction": Redaction.message_only(), "requires_connection": True, **options}
        self.tool = Tool[None, Any](name="look", description="Look.", handler=handler, **settings)
        self.summary = RunSummary()
        self.runner = ToolRunner(
            [self.tool],
            policy=ToolPolicy(("look",)),
            connections=self.access,
            ledger=self.ledger,
            emit=self.events.append,
            resources={SpanSink: self, RunSummary: self.summary},
        )

    def put(self, span: ToolSpan, /) -> None:
        self.spans.append(span)

    async def exec(self) -> ToolExecResult:
        return await self.runner.exec("look", "{}", ctx=ADA, connection_id=self.mine.id)

    def surfaces(self, result: ToolExecResult) -> dict[str, list[bytes | str]]:
        """Returns all that others may see of a call, and the texts of every object that they can reach from it."""
        record = dataclasses.asdict(result.record)
        return {
            "result": [repr(result), repr(dataclasses.asdict(result))],
            "content": [result.content],
            "record": [json.dumps(record, default=str), json.dumps(result.record.public())],
            "events": [json.dumps([event_to_json(event) for event in self.events])],
            "pickles": [pickle.dumps([result, self.events, self.spans])],
            "files": [file.read_bytes() for file in self.path.parent.iterdir()],
            "objects": texts_of(result, self.events, self.spans, self.runner, self.ledger, self.summary),
        }

    def assert_nowhere(self, result: ToolExecResult) -> None:
        assert Traces(PLANTED, self.surfaces(result)).leaks() == []


def auth_of(context: ToolContext) -> AuthCapability:
    auth = context.resources.get(AuthCapability)
    assert auth is not None
    return auth


def tool_result(message: str = "done", value: Any = None) -> ToolResult[Any]:
    return ToolResult(message, value)


def raises_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    raise RuntimeError(f"401 for {auth_of(context).get_auth_headers()}")


def raises_it_on_purpose(params: None, *, context: ToolContext) -> ToolResult[Any]:
    raise ToolUserError(f"401 for {auth_of(context).get_auth_headers()}")


def returns_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return tool_result("ok", {"headers": auth_of(context).get_auth_headers()})


def says_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return tool_result(f"used {auth_of(context).get_access_token()}")


def returns_the_capability(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return tool_result("ok", {"auth": auth_of(context)})


def returns_the_context(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return tool_result("ok", context)


def shows_the_capability(params: None, *, context: ToolContext) -> ToolResult[Any]:
    auth = auth_of(context)
    logging.getLogger("app").warning("%s %r", auth, auth, extra={"auth": auth, "context": context})
    print(auth, repr(context), context.resources)
    return tool_result(f"{auth} {auth!r} {json.dumps({'auth': auth}, default=repr)}", {"repr": repr(context)})


def copies_the_capability(params: None, *, context: ToolContext) -> ToolResult[Any]:
    auth = auth_of(context)
    for leave in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            leave(auth)
        assert_clean(str(caught.value))
    with pytest.raises(TypeError):
        pickle.dumps(context)
    with pytest.raises(TypeError):
        copy.deepcopy(context)
    return tool_result()


def leaves_with_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    raise SystemExit(auth_of(context).get_access_token())


def fails_with_it(params: None, *, context: ToolContext) -> ToolResult[Any]:
    return ToolResult(auth_of(context).get_access_token(), {"t": auth_of(context).get_access_token()}, success=False)


HANDLERS: dict[Callable[..., Any], str] = {
    raises_it: "execution",
    raises_it_on_purpose: "execution",
    returns_it: "redaction_failed",
    says_it: "redaction_failed",
    returns_the_capability: "output_validation",
    returns_the_context: "output_validation",
    shows_the_capability: "ok",
    copies_the_capability: "ok",
    leaves_with_it: "unknown_outcome",
    fails_with_it: "redaction_failed",
}


async def run_journey(
    act: Callable[..., Any],
    options: Mapping[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> Traces:
    """Has the handler called twice, and once more without a loop, and checks that each call ends as `HANDLERS` says."""
    caplog.set_level(logging.DEBUG)
    watched = WatchedRunner(tmp_path, act, **options)
    surfaces: dict[str, list[bytes | str]] = {}
    results: list[ToolExecResult] = []

    def collect(result: ToolExecResult) -> None:
        results.append(result)
        for surface, texts in watched.surfaces(result).items():
            surfaces.setdefault(surface, []).extend(texts)

    collect(await watched.exec())
    collect(await watched.exec())
    if "idempotency" not in options:
        collect(watched.runner.exec_sync("look", "{}", ctx=ADA, connection_id=watched.mine.id))
        assert [str(result.error_code or "ok") for result in results] == [HANDLERS[act]] * 3
    assert [record for record in caplog.records if record.exc_info] == []
    plain = logging.Formatter("%(message)s")
    logged = [text for record in caplog.records for text in (plain.format(record), repr(vars(record)))]
    return Traces(PLANTED, {**surfaces, "logs": logged, "stdout and stderr": list(capfd.readouterr())})
