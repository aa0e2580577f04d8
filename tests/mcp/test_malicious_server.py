"""A server that breaks the rules: each call ends in an honest answer, and no text of the server goes unmarked.

The counter is a file that the server writes, so it says what happened whatever the server answers.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.conftest import Bad, acted, until

from demiurge.errors import Unavailable
from demiurge.mcp import Listing, McpClients, ToolDefinition
from demiurge.mcp.connection import ServerConnection
from demiurge.mcp.list_definitions import MAX_LISTED, MAX_PAGES
from demiurge.mcp.server_process import LOG_BYTES
from demiurge.tools import ToolContext, ToolEffect, ToolFailure, ToolResult
from demiurge.tools.authoring.hidden_text import without_hidden
from demiurge.values.clock import FixedClock

ACT = ToolDefinition(
    "act", description="Acts.", input_schema={"type": "object", "properties": {"n": {"type": "integer"}}}
)
WITH_SUM = ToolDefinition.of_json({**ACT.to_json(), "outputSchema": {"type": "object", "required": ["sum"]}})
ACTS, READS = ToolEffect.EXTERNAL_SIDE_EFFECT, ToolEffect.READ_ONLY
IDEMPOTENT = ToolDefinition.of_json({**ACT.to_json(), "annotations": {"idempotentHint": True}})


async def outcome(
    clients: McpClients, settings: Any, effect: ToolEffect = ACTS, pinned: ToolDefinition = ACT
) -> tuple[str, str]:
    """Calls `act`. Returns the error code, or `done` or `failed`, and the text for the model."""
    try:
        result = await clients.call(settings, pinned, {"n": 1}, ToolContext(), effect)
    except ToolFailure as failure:
        return failure.error_code.value, failure.model_message
    assert isinstance(result, ToolResult)
    return "done" if result.success else "failed", result.message


@pytest.mark.parametrize(
    ("behaviour", "if_it_acts", "if_it_reads"),
    [
        ("hangs", "unknown_outcome", "timeout"),
        ("other_id", "unknown_outcome", "timeout"),
        ("closes", "unknown_outcome", "unavailable"),
        ("leaves_a_child", "unknown_outcome", "unavailable"),
        ("wrong_type", "unknown_outcome", "execution"),
        ("wrong_result", "unknown_outcome", "execution"),
        ("no_result", "unknown_outcome", "execution"),
        ("endless_line", "unknown_outcome", "unavailable"),
        ("asks_without_reading", "unknown_outcome", "timeout"),
        ("hundred_megabytes", "result_too_large", "result_too_large"),
        ("over_its_limit", "result_too_large", "result_too_large"),
        ("breaks_its_schema", "output_validation", "output_validation"),
        ("answers_twice", "done", "done"),
        ("no_json", "done", "done"),
        ("floods", "done", "done"),
        ("stderr_flood", "done", "done"),
        ("bad_parts", "done", "done"),
        ("injection", "done", "done"),
        ("injection_in_error", "failed", "failed"),
        ("injection_in_rpc_error", "failed", "failed"),
    ],
)
@pytest.mark.parametrize("effect", [ACTS, READS])
async def test_a_bad_answer_gets_an_honest_code(
    behaviour: str,
    if_it_acts: str,
    if_it_reads: str,
    effect: ToolEffect,
    bad: Bad,
    clients: McpClients,
    counter: Path,
) -> None:
    settings = bad(behaviour, timeout_s=0.5 if "timeout" in (if_it_acts, if_it_reads) else 60)
    pinned = WITH_SUM if behaviour == "breaks_its_schema" else ACT
    code, text = await outcome(clients, settings, effect, pinned)
    assert code == (if_it_acts if effect is ACTS else if_it_reads)
    repeats = effect is READS and if_it_reads == "unavailable"  # the server ended, and nothing can have changed
    await until(lambda: acted(counter) >= 1)
    assert acted(counter) == 1 + repeats
    if code in ("done", "failed") and text:
        mark = re.fullmatch(
            r'<untrusted_text source="mcp__bad__act" mark="(\w{16})">\n(.*)\n</untrusted_text mark="\1">', text, re.S
        )
        assert mark is not None
        assert mark[1] not in mark[2]
        assert "untrusted_text>" not in mark[2].lower().replace(" ", "").replace("\u2039/untrusted_text>", "")
        assert "</" not in mark[2]
        assert without_hidden(mark[2]) == mark[2]
        assert "\x1b" not in text
    else:
        assert "evil.example" not in text


@pytest.mark.parametrize("effect", [ACTS, READS])
@pytest.mark.parametrize("pinned", [ACT, IDEMPOTENT])
async def test_a_call_is_sent_again_only_if_nothing_can_have_changed(
    effect: ToolEffect, pinned: ToolDefinition, bad: Bad, clients: McpClients, counter: Path
) -> None:
    behaviour = "closes_once" if pinned is ACT else "idempotent_closes_once"
    code, _ = await outcome(clients, bad(behaviour), effect, pinned)
    is_safe = effect is READS or pinned is IDEMPOTENT
    assert (code, acted(counter)) == (("done", 2) if is_safe else ("unknown_outcome", 1))


@pytest.mark.parametrize("behaviour", ["changes_between_list_and_call", "announces_change", "changes_and_changes_back"])
async def test_a_changed_definition_is_not_called(
    behaviour: str, bad: Bad, clients: McpClients, counter: Path, told: list[Listing]
) -> None:
    settings = bad(behaviour, refresh_s=0)
    assert (await clients.list_tools(settings)).find("act") == ACT
    if behaviour == "announces_change":
        assert (await outcome(clients, settings))[0] == "done"
        await until(lambda: len(told) == 2)
    before = acted(counter)
    code, text = await outcome(clients, settings)
    assert (code, acted(counter)) == ("quarantined", before)
    assert "evil" not in text
    await until(lambda: len(told) == 2)
    assert "evil" in str(told[1].definitions)


async def test_a_change_is_noticed_without_a_call(bad: Bad, clients: McpClients, told: list[Listing]) -> None:
    settings = bad("announces_change")
    await clients.list_tools(settings)
    assert (await outcome(clients, settings))[0] == "done"
    await until(lambda: len(told) == 2)
    assert told[1].definitions != told[0].definitions


async def test_an_announced_change_that_is_not_listed_stops_calls(bad: Bad, clients: McpClients, counter: Path) -> None:
    settings = bad("announces_and_lists_no_more")
    assert (await outcome(clients, settings))[0] == "done"
    for _ in range(2):
        assert await outcome(clients, settings) == ("unavailable", "The server gave no valid list of its tools.")
    assert acted(counter) == 1


async def test_the_name_of_a_file_stands_between_the_marks(bad: Bad, clients: McpClients) -> None:
    result = await clients.call(bad("words_in_a_file_name"), ACT, {"n": 1}, ToolContext(), READS)
    assert isinstance(result, ToolResult)
    assert [(part.name, part.mime) for part in result.parts] == [("file", "text/plain")]
    first, name, last = result.message.splitlines()
    assert first.startswith("<untrusted_text")
    assert "send_mail" in name
    assert "read-my/orders" in name
    assert last.startswith("</untrusted_text")


async def test_a_server_that_was_started_after_the_listing_is_not_called(
    bad: Bad, clients: McpClients, counter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_tools = ServerConnection.list_tools

    async def list_and_end(connection: ServerConnection) -> Listing:
        listing = await list_tools(connection)
        connection.ended.set()
        return listing

    monkeypatch.setattr(ServerConnection, "list_tools", list_and_end)
    code, _ = await outcome(clients, bad("answers"))
    assert (code, acted(counter)) == ("unavailable", 0)


async def test_a_tool_that_is_gone_is_unavailable(bad: Bad, clients: McpClients, counter: Path) -> None:
    settings = bad("loses_its_tool", refresh_s=0)
    await clients.list_tools(settings)
    assert await outcome(clients, settings) == ("unavailable", "The server no longer lists this tool.")
    assert acted(counter) == 0


@pytest.mark.parametrize(
    ("behaviour", "tools", "problem"),
    [
        ("look_alikes", 4, "The tool ac<U+200B>t reads like act."),
        ("same_name_twice", 0, "The tool act is listed twice, so it is left out."),
        ("endless_pages", MAX_PAGES, f"The server's list of tools does not end after {MAX_PAGES} pages."),
        ("same_page_again", 1, "The server's list of tools repeats a page."),
        ("offers_no_tools", 0, "The server offers no tools."),
        ("thousand_tools", MAX_LISTED, f"The server lists too many tools: only its first {MAX_LISTED} are read."),
        ("invalid_tools", 0, f"The server lists too many tools: only its first {MAX_LISTED} are read."),
        (
            "giant_definition",
            1,
            "The tool giant is left out: the definition has 300103 bytes, and 262144 is the most.",
        ),
    ],
)
async def test_a_listing_is_bounded(behaviour: str, tools: int, problem: str, bad: Bad, clients: McpClients) -> None:
    listing = await clients.list_tools(bad(behaviour))
    assert len(listing.definitions) == tools
    assert listing.problems[-1] == problem
    assert len(listing.problems) <= MAX_LISTED + 1
    assert "\x1b" not in listing.server_name


async def test_a_listing_of_another_form_is_refused(bad: Bad, clients: McpClients) -> None:
    with pytest.raises(Unavailable, match="gave no valid list"):
        await clients.list_tools(bad("bad_listing"))


async def test_a_malformed_tool_is_named_with_its_fault_and_the_others_are_listed_and_called(
    bad: Bad, clients: McpClients, counter: Path
) -> None:
    listing = await clients.list_tools(bad("malformed_tools"))
    assert [definition.name for definition in listing.definitions] == ["act"]
    assert listing.problems == (
        "The tool no<U+200B>schema is left out: inputSchema: Input should be a valid dictionary.",
        "The tool number 3 of its page is left out: name: Input should be a valid string.",
    )
    assert (await outcome(clients, bad("malformed_tools")))[0] == "done"
    assert acted(counter) == 1


async def test_a_server_that_ends_at_its_start_says_its_exit_code(bad: Bad) -> None:
    clients, settings = McpClients(clock=FixedClock(0)), bad("exits_at_start")
    for wait in ("", "", " It is started again in 1 seconds at the earliest."):
        with pytest.raises(Unavailable) as caught:
            await clients.list_tools(settings)
        assert caught.value.message == f"The server's program ended at its start, with the exit code 3.{wait}"
    assert clients.problem("bad") == "The server's program ended at its start, with the exit code 3."
    assert "evil.example" in clients.log("bad")
    assert "\x1b" not in clients.log("bad")
    await clients.close()


async def test_a_server_that_hangs_at_its_start_is_given_up(bad: Bad) -> None:
    clients = McpClients(start_s=0.3, stop_s=0.3)
    with pytest.raises(Unavailable, match="did not answer in time"):
        await clients.list_tools(bad("hangs_at_start"))
    await clients.close()


async def test_a_server_that_ignores_signals_is_killed(bad: Bad, counter: Path) -> None:
    clients = McpClients(stop_s=0.1)
    await clients.list_tools(bad("ignores_sigterm"))
    pid = int(counter.with_name("acted.pid").read_text())
    assert clients.is_running("bad")
    await clients.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_the_standard_error_of_a_server_is_kept_short_and_visible(bad: Bad, clients: McpClients) -> None:
    settings = bad("stderr_flood")
    assert (await outcome(clients, settings))[0] == "done"
    await until(lambda: bool(clients.log("bad")))
    log = clients.log("bad")
    assert "\x1b" not in log
    assert "<U+001B>" in log
    assert len(log.replace("<U+", "")) <= 8 * LOG_BYTES


async def test_the_event_loop_stays_alive(bad: Bad, clients: McpClients) -> None:
    """Other tasks go on while a server floods: a task that counts gets its turn hundreds of times."""
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    beating = asyncio.create_task(beat())
    assert (await outcome(clients, bad("floods")))[0] == "done"
    beating.cancel()
    with suppress(asyncio.CancelledError):
        await beating
    assert beats > 300


async def test_a_hanging_server_is_started_again(bad: Bad, clients: McpClients, counter: Path) -> None:
    settings = bad("hangs", timeout_s=0.2)
    for calls in (1, 2):
        assert (await outcome(clients, settings))[0] == "unknown_outcome"
        await until(lambda: acted(counter) >= calls)  # noqa: B023
        assert acted(counter) == calls
