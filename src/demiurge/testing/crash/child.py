"""The work of a process of the crash kit: it makes the call, and may be killed in it; or it goes on after a kill.

Faults are armed when the world is open, so that the kills are in the call and in what follows, not in the opening.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from demiurge import faults
from demiurge.bootstrap.call import CallOutcome
from demiurge.bootstrap.chat import Chat
from demiurge.bootstrap.reply import Reply
from demiurge.bootstrap.world import World
from demiurge.errors import NotFound, UsageError
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.testing.crash.fork_server import function_of
from demiurge.testing.crash.outside import Outside
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.effect import ToolEffect
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.runner import ToolRunner
from demiurge.tools.source import as_source

__all__ = ["CallEnd", "live"]

CALL_ID: Final = "call-of-the-crash-kit"
CHAT: Final = "main"
UNKNOWN: Final = "unknown_outcome"


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a call, or of a turn, as a process was told. `ok`: the call, or the turn, succeeded. `code`: the error
    code of the call or turn, or of the first of its calls that is in doubt; None for a success. `tools`: the tools that
    were called. `reading`: all of these are `read_only`. `problem`: what the check of the journal found, None if
    nothing."""

    ok: bool
    code: str | None
    message: str
    tools: tuple[str, ...]
    reading: bool
    problem: str | None = None


def live(
    build: Mapping[str, str],
    folder: str,
    ended: str,
    call: list[Any] | None,
    message: str | None,
    in_runner: bool,
    fault: str,
    passed: str,
) -> None:
    """Makes the call or goes on with it in `folder`, and writes a CallEnd to the file `ended`. `fault` is armed after
    the world is open; with `passed`, the points that were passed, in order, and the imported modules are written to
    that file."""
    outside = Outside(Path(folder) / "outside")
    options = options_of(function_of(build)(outside))
    work = _in_runner if in_runner else _in_world
    found = asyncio.run(work(Path(folder), options, call, message, _Faults(fault, passed)))
    Path(ended).write_text(json.dumps(asdict(found)), "utf-8")


def options_of(built: Any) -> dict[str, Any]:
    """Returns what the user's function built as arguments of `World.open`: its tools, or a mapping with `tools`. By
    default the policy allows these tools."""
    options = dict(built) if isinstance(built, Mapping) else {"tools": built}
    if "tools" not in options:
        raise UsageError("The function returns tools, or a mapping with `tools` and other arguments of World.open.")
    if options.get("policy") is None:
        names = (*(tool.name for tool in CORE_TOOLS), *_levels(options["tools"]))
        options["policy"] = ToolPolicy(tuple(dict.fromkeys(names)))
    return options


def _levels(tools: Any) -> dict[str, ToolEffect]:
    return {spec.name: spec.effect for spec in as_source(tools).specs()}


class _Faults:
    def __init__(self, fault: str, passed: str) -> None:
        self._fault, self._passed = fault, passed

    @contextmanager
    def armed(self) -> Iterator[None]:
        with ExitStack() as stack:
            passed = stack.enter_context(faults.noted()) if self._passed else []
            if self._fault:
                stack.enter_context(faults.armed(dict(faults.parse(self._fault))))
            yield
        if self._passed:
            noted = {"points": passed, "modules": [name for name in sys.modules if name != "__main__"]}
            Path(self._passed).write_text(json.dumps(noted), "utf-8")


async def _in_world(
    folder: Path, options: dict[str, Any], call: list[Any] | None, message: str | None, faulty: _Faults
) -> CallEnd:
    levels = _levels(options["tools"])
    async with World.open(folder / "world", **{"environment": {"HOME": str(folder / "home")}, **options}) as world:
        with faulty.armed():
            await world.settle()
            if message is not None:
                ended = _of_reply(await _turn(world, world.chat(CHAT), message), levels)
            else:
                assert call is not None
                ended = _of_call(await _call(world, *call), levels)
        problem = world.journal.verify().problem
    return ended if problem is None else replace(ended, problem=f"The journal is not whole: {problem}")


async def _call(world: World, tool: str, arguments: Mapping[str, Any]) -> CallOutcome:
    """Makes the call; a call with the same id that was made before is not run again."""
    made = await world.call(tool, json.dumps(arguments), CALL_ID)
    while made.approval is not None:
        await world.decide(made.approval, approve=True, reason="The crash kit approves.")
        await world.settle()
        made = await world.call(tool, json.dumps(arguments), CALL_ID)
    return made


async def _turn(world: World, chat: Chat, message: str) -> Reply:
    """Sends the message, unless the chat has taken it, and approves all calls."""
    await chat.create()
    try:
        reply = await chat.reply()
    except NotFound:
        reply = await chat.send(message)
    while reply.status == "awaiting_approval":
        for approval in reply.approvals:
            await world.decide(approval, approve=True, reason="The crash kit approves.")
        await chat.resume()
        reply = await chat.reply()
    return reply


def _of_call(made: CallOutcome, levels: Mapping[str, ToolEffect]) -> CallEnd:
    return CallEnd(made.ok is True, made.error_code, made.message, (made.tool,), _only_reads([made.tool], levels))


def _of_reply(reply: Reply, levels: Mapping[str, ToolEffect]) -> CallEnd:
    tools = tuple(call.name for call in reply.tool_calls)
    failed = next((call for call in reply.tool_calls if call.error_code == UNKNOWN), None)
    if failed is not None:
        return CallEnd(False, failed.error_code, failed.message, tools, _only_reads(tools, levels))
    return CallEnd(reply.status == "done", reply.error_code, reply.message, tools, _only_reads(tools, levels))


def _only_reads(tools: Any, levels: Mapping[str, ToolEffect]) -> bool:
    return all(levels.get(tool, ToolEffect.READ_ONLY) is ToolEffect.READ_ONLY for tool in tools)


async def _in_runner(
    folder: Path, options: dict[str, Any], call: list[Any] | None, _message: str | None, faulty: _Faults
) -> CallEnd:
    assert call is not None
    tool, arguments = call
    with SqliteEffectLedger(folder / "ledger.db") as ledger:
        taken = {name: options[name] for name in ("tools", "policy", "resources") if name in options}
        runner = ToolRunner(ledger=ledger, **taken)
        with faulty.armed():
            made = await runner.exec(tool, arguments, tool_call_id=CALL_ID)
    code = str(made.error_code) if made.error_code is not None else None
    return CallEnd(made.ok, code, made.safe_message or "", (tool,), _only_reads([tool], _levels(options["tools"])))
