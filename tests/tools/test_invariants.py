"""The invariants of seed 003 that this package carries, each by its name, and some that the original lacked."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import demiurge.tools
from demiurge import (
    Budget,
    Budgets,
    BudgetTracker,
    InMemoryApprovals,
    InvalidValue,
    PromptValidationError,
    Redaction,
    Tool,
    ToolCatalog,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolExecResult,
    ToolInvocationRecord,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolSpec,
)
from demiurge.tools import (
    CORE_TOOLS,
    SAFE_MESSAGES,
    Decision,
    LoopSignal,
    StaticToolSource,
    TokenUsage,
    ToolCallResult,
    ToolCallStart,
    ToolFailure,
    compile_schema,
    event_to_json,
)
from demiurge.tools.bound import BoundTool
from demiurge.tools.foreign.tool import foreign_id, foreign_tool
from demiurge.tools.ids import canonical_id, is_reserved, is_tool_id

SOURCE = Path(demiurge.tools.__file__).parent
CANARY = "canary-7f3a"


@dataclass(frozen=True)
class Query:
    text: str


@dataclass(frozen=True)
class Found:
    count: int
    secret: str = CANARY


def search(params: Query, *, context: ToolContext) -> ToolResult[Found]:
    if params.text == "raise":
        raise RuntimeError(f"{CANARY} {params.text}")
    return ToolResult(message="found", value=Found(1))


TOOL = Tool[Query, Found](
    name="web__search",
    description="Search.",
    handler=search,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("count"),
)
ALLOW = ToolPolicy(("web__search",))


def events_of(args: Any, policy: ToolPolicy | None = ALLOW, tool_id: str = "web__search") -> list[Any]:
    events: list[Any] = []
    result = ToolRunner([TOOL], policy=policy, emit=events.append).exec_sync(tool_id, args, tool_call_id="c1")
    return [*events, result]


def test_invariant_01_tools_via_toolrunner_only_one_module_calls_handlers() -> None:
    callers = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr == "call":  # type: ignore[attr-defined]
                callers.add(file.name)
    assert callers == {"run.py"}
    assert not callable(TOOL)


def test_invariant_03_tools_io_via_capabilities() -> None:
    assert all(tool.capabilities for tool in CORE_TOOLS)
    runner = ToolRunner(CORE_TOOLS, policy=ToolPolicy(tuple(tool.name for tool in CORE_TOOLS)))
    for tool in CORE_TOOLS[1:]:
        required = tool.spec.input_schema.get("required", [])
        assert runner.exec_sync(tool.name, dict.fromkeys(required, "x")).error_code == "unavailable"


def test_invariant_04_redaction_required() -> None:
    with pytest.raises(PromptValidationError):
        dataclasses.replace(TOOL, redaction=None)  # type: ignore[arg-type]
    start, end, result = events_of({"text": "x"})
    assert result.value == end.result == result.record.result == {"count": 1}
    assert CANARY not in repr((start, end, result.value))


def test_invariant_05_toolcallid_stable() -> None:
    for args in ({"text": "x"}, {"text": 1}, "{", {"text": "raise"}):
        start, end, result = events_of(args)
        assert isinstance(start, ToolCallStart)
        assert isinstance(end, ToolCallResult)
        assert start.tool_call_id == end.tool_call_id == result.tool_call_id == result.record.tool_call_id == "c1"


def test_invariant_10_tool_semantics_canonical() -> None:
    names = [field.name for field in dataclasses.fields(ToolSpec)]
    assert names == [
        *("name", "description", "input_schema", "effect", "redaction", "spec_hash", "details"),
        *("untrusted", "quarantined", "mcp_item", "mcp_listing"),
    ]
    record = {field.name for field in dataclasses.fields(ToolInvocationRecord)}
    assert record >= {
        "tool_call_id",
        "name",
        "args",
        "result",
        "error",
        "started_at_ms",
        "ended_at_ms",
        "raw",
    }
    for module in ("spec", "record", "policy", "events", "bound", "runner"):
        assert "pydantic" not in (SOURCE / f"{module}.py").read_text().replace("schema library", "")


def test_invariant_10_a_spec_hash_covers_everything_else() -> None:
    spec = TOOL.spec
    changes: list[dict[str, Any]] = [
        {"name": "other"},
        {"description": "Other."},
        {"input_schema": {}},
        {"effect": ToolEffect.STATE_CHANGE},
        {"redaction": Redaction.drop_all()},
    ]
    hashes = {dataclasses.replace(spec, spec_hash="", **change).spec_hash for change in changes}
    assert len(hashes | {spec.spec_hash}) == 6
    assert dataclasses.replace(spec, spec_hash="") == spec


def test_invariant_13_json_schema7_parameters_compile_deterministically() -> None:
    assert json.dumps(compile_schema(Query)) == json.dumps(TOOL.spec.input_schema)
    assert not {"$schema", "title", "$defs"} & set(TOOL.spec.input_schema)


def test_invariant_14_no_manual_schema_duplication() -> None:
    for tool in (*CORE_TOOLS, TOOL):
        assert tool.spec.input_schema == compile_schema(tool.params_type)
    with pytest.raises(TypeError):
        Tool[Query, Found](name="t", description="d", handler=search, input_schema={})  # type: ignore[call-arg]


def test_invariant_16_tool_id_namespaced() -> None:
    for tool in CORE_TOOLS:
        assert is_tool_id(tool.name)
        assert is_reserved(tool.name)
    assert canonical_id("workspace.read") == "workspace__read"
    with pytest.raises(PromptValidationError):
        dataclasses.replace(TOOL, name="mcp__mine__tool")


def test_invariant_17_effect_typed() -> None:
    assert {effect.value for effect in ToolEffect} == {"read_only", "state_change", "external_side_effect"}
    with pytest.raises(PromptValidationError):
        dataclasses.replace(TOOL, effect="harmless")  # type: ignore[arg-type]


def test_invariant_18_catalog_is_explicit() -> None:
    assert ToolCatalog.compile([TOOL, *CORE_TOOLS], ALLOW).specs() == (TOOL.spec,)


def test_invariant_19_policy_is_data() -> None:
    again = ToolPolicy.from_json(json.loads(json.dumps(ALLOW.to_json())))
    assert again == ALLOW
    assert ToolPolicy(()).digest != ALLOW.digest


def test_invariant_20_deny_by_default() -> None:
    for policy in (None, ToolPolicy(), ToolPolicy(("other",))):
        for tool_id in ("web__search", "unknown"):
            assert events_of({"text": "x"}, policy, tool_id)[-1].error_code == "policy_denied"


def test_invariant_20_require_approval_without_a_person_is_denied() -> None:
    asking = ToolPolicy(("web__search",), (ToolEffect.READ_ONLY,))
    assert events_of({"text": "x"}, asking)[-1].error_code == "policy_denied"


@dataclass
class Server:
    """A source like an MCP server, which may have other tools tomorrow."""

    found: dict[str, BoundTool]

    def get(self, tool_id: str) -> BoundTool | None:
        return self.found.get(tool_id)

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.found.values())


def discovered(server: str, name: str, effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT) -> dict[str, BoundTool]:
    tool_id = foreign_id("mcp", server, name)
    return {
        tool_id: foreign_tool(
            name=tool_id,
            description="Foreign.",
            input_schema={"type": "object"},
            call=lambda params, context: ToolResult("m", CANARY),
            redaction=Redaction.drop_all(),
            effect=effect,
        )
    }


def test_invariant_21_mcp_untrusted_by_default() -> None:
    """By server and by tool, on a list of a person's own; what turns up later is not on it."""
    server = Server(discovered("files", "read"))
    policy = ToolPolicy(("mcp__files__read",))

    def seen_and_run(rules: ToolPolicy | None) -> tuple[set[str], set[str]]:
        runner = ToolRunner(server, policy=rules)
        run = {tool_id for tool_id in server.found if runner.exec_sync(tool_id, "{}").ok}
        return {spec.name for spec in ToolCatalog.compile(server, rules)}, run

    assert seen_and_run(None) == (set(), set())
    assert seen_and_run(policy) == ({"mcp__files__read"}, {"mcp__files__read"})
    server.found |= discovered("files", "delete") | discovered("mail", "read")
    assert seen_and_run(policy) == ({"mcp__files__read"}, {"mcp__files__read"})
    for pattern in ("mcp__files__*", "mcp__files__", "mcp__*", "*"):
        with suppress(InvalidValue):  # no id, or the id of no tool
            assert seen_and_run(ToolPolicy((pattern,))) == (set(), set())
    assert seen_and_run(ToolPolicy((*policy.allowed_tools, "mcp__mail__read")))[1] == {
        "mcp__files__read",
        "mcp__mail__read",
    }


def test_invariant_21_mcp_says_nothing_of_itself_that_is_believed() -> None:
    """Its effect is the strictest unless a person says otherwise, and nothing that it returns is public by itself."""
    (tool,) = discovered("files", "read").values()
    assert tool.spec.effect is ToolEffect.EXTERNAL_SIDE_EFFECT
    asking = ToolPolicy(("mcp__files__read",), (ToolEffect.EXTERNAL_SIDE_EFFECT,))
    assert ToolRunner([tool], policy=asking).exec_sync("mcp__files__read", "{}").error_code == "policy_denied"
    result = ToolRunner([tool], policy=ToolPolicy(("mcp__files__read",))).exec_sync("mcp__files__read", "{}")
    assert (result.ok, result.value) == (True, {})
    with pytest.raises(PromptValidationError):
        dataclasses.replace(TOOL, name="mcp__files__read")


def test_invariant_22_tool_id_stability() -> None:
    with pytest.raises(PromptValidationError):
        StaticToolSource([TOOL, dataclasses.replace(TOOL)])


class OfTheRun(ToolPolicy):
    """Each run has a list of its own: what `configurable.toolIds` is to a graph."""

    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        listed = {"run-1": ("web__search",), "run-2": ()}.get(ctx.run_id, ())
        return super().decide(ctx, tool_id, effect) if tool_id in listed else "deny"


@pytest.mark.parametrize("handler", ["def", "async"])
async def test_invariant_23_tool_config_propagation(handler: str) -> None:
    """Who asks, and in which run, gets to the policy and to the handler whatever the executor and the form of `ctx`."""
    seen: list[ToolPolicyContext] = []

    def noting(params: Query, *, context: ToolContext) -> ToolResult[Found]:
        seen.append(context.caller)
        return search(params, context=context)

    async def noting_later(params: Query, *, context: ToolContext) -> ToolResult[Found]:
        return noting(params, context=context)

    tool = dataclasses.replace(TOOL, handler=noting if handler == "def" else noting_later)
    runner = ToolRunner([tool], policy=OfTheRun(("web__search",)))
    calls = [("c1", "web__search", {"text": "x"})]
    for run, code in (("run-1", None), ("run-2", "policy_denied"), ("", "policy_denied")):
        caller = ToolPolicyContext(run_id=run, actor="user:ada", tenant="acme", roles=("support",))
        for ctx in (caller, ToolContext(caller=caller)):
            seen.clear()
            results = [
                await runner.exec("web__search", {"text": "x"}, ctx=ctx),
                runner.exec_sync("web__search", {"text": "x"}, ctx=ctx),
                *await runner.exec_many(calls, ctx=ctx),
                *runner.exec_many_sync(calls, ctx=ctx),
            ]
            assert [result.error_code for result in results] == [code] * 4
            assert seen == ([caller] * 4 if code is None else [])


def test_invariant_24_what_a_source_lists_is_what_it_runs() -> None:
    source = StaticToolSource([TOOL, *CORE_TOOLS])
    for spec in source.specs():
        bound = source.get(spec.name)
        assert bound is not None
        assert bound.spec is spec


async def test_invariant_25_same_path_for_a_tool_that_is_not_authored_here() -> None:
    foreign = BoundTool(
        spec=ToolSpec("mcp__srv__Tool", "Foreign.", {"type": "object"}, redaction=Redaction.drop_all()),
        parse=lambda text: text,
        call=lambda params, context: ToolResult(message="m", value=CANARY),
        dump=lambda value: json.dumps(value).encode(),
        load=json.loads,
    )
    events: list[Any] = []
    runner = ToolRunner([foreign], policy=ToolPolicy(("mcp__srv__Tool",)), emit=events.append)
    result = await runner.exec("mcp__srv__Tool", "{}")
    assert (result.ok, result.value, len(events)) == (True, {}, 2)
    assert CANARY not in repr(events)


def test_invariant_26_connection_id_only() -> None:
    @dataclass
    class Tied:
        connection_id: str

    with pytest.raises(InvalidValue):
        compile_schema(Tied)
    fields = {field.name for kind in (ToolContext, ToolPolicyContext) for field in dataclasses.fields(kind)}
    assert not fields & {"token", "access_token", "api_key", "headers", "secret", "credential", "credentials"}


def answers(tool: Any, calls: list[tuple[str, str, Any]], executor: str) -> list[Any]:
    """What each call came to for everybody who sees it: its answer, its record without times, its events."""
    events: list[Any] = []
    runner = ToolRunner([tool], policy=ToolPolicy((tool.name, "absent")), emit=events.append)

    async def one_by_one() -> list[ToolExecResult]:
        return [await runner.exec(tool_id, args, tool_call_id=call_id) for call_id, tool_id, args in calls]

    async def as_one_turn() -> list[ToolExecResult]:
        return list(await runner.exec_many(calls))

    async def inside_a_loop() -> list[ToolExecResult]:
        return [runner.exec_sync(tool_id, args, tool_call_id=call_id) for call_id, tool_id, args in calls]

    ways: dict[str, Callable[[], list[ToolExecResult]]] = {
        "exec": lambda: asyncio.run(one_by_one()),
        "exec_many": lambda: asyncio.run(as_one_turn()),
        "exec_sync": lambda: [
            runner.exec_sync(tool_id, args, tool_call_id=call_id) for call_id, tool_id, args in calls
        ],
        "exec_sync in a loop": lambda: asyncio.run(inside_a_loop()),
    }
    timeless = [
        dataclasses.replace(result, record=dataclasses.replace(result.record, started_at_ms=0, ended_at_ms=0))
        for result in ways[executor]()
    ]
    return [*timeless, [event_to_json(event) for event in events]]


async def search_later(params: Query, *, context: ToolContext) -> ToolResult[Found]:
    await asyncio.sleep(0)
    return search(params, context=context)


@pytest.mark.parametrize("changes", [{}, {"inline": True}, {"handler": search_later}], ids=["def", "inline", "async"])
def test_invariant_25_same_path_for_all_executors(changes: dict[str, Any]) -> None:
    calls: list[tuple[str, str, Any]] = [
        ("c1", "web__search", '{"text": "x"}'),
        ("c2", "web__search", {"text": "x"}),
        ("c3", "web__search", '{"text": 1}'),
        ("c4", "web__search", '{"text": "x"'),
        ("c5", "web__search", '{"text": "raise"}'),
        ("c6", "web.search", '{"text": "x"}'),
        ("c7", "absent", '{"text": "x"}'),
        ("c8", "denied", '{"text": "x"}'),
    ]
    tool = dataclasses.replace(TOOL, **changes)
    first, *others = (
        answers(tool, calls, executor) for executor in ("exec", "exec_many", "exec_sync", "exec_sync in a loop")
    )
    assert [other == first for other in others] == [True, True, True]


ODD_ARGS = st.one_of(
    st.sampled_from(['{"text": "x"}', '{"text": "raise"}', '{"text": 1}', "{", "", b"{}", '{"text": "signal"}']),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.dictionaries(st.text(max_size=4), st.none() | st.integers() | st.text(max_size=4), max_size=3),
    st.none() | st.integers() | st.floats(),
)
TOOL_IDS = st.one_of(st.sampled_from(["web__search", "web.search", "absent", "denied"]), st.text(max_size=80))
CALL_IDS = st.none() | st.text(max_size=10)


def signalling(params: Query, *, context: ToolContext) -> ToolResult[Found]:
    if params.text == "signal":
        raise LoopSignal("up")
    return search(params, context=context)


@given(TOOL_IDS, ODD_ARGS, CALL_IDS, st.booleans())
def test_every_call_answered_and_start_before_result(tool_id: str, args: Any, call_id: str | None, asks: bool) -> None:
    """EVERY_CALL_ANSWERED, START_BEFORE_RESULT: one start, then one result, under one id, whatever was asked."""
    events: list[Any] = []
    policy = ToolPolicy(("web__search", "absent"), require_approval_for_tools=("web__search",) if asks else ())
    tool = dataclasses.replace(TOOL, handler=signalling)
    runner = ToolRunner([tool], policy=policy, emit=events.append, approvals=InMemoryApprovals())
    try:
        result: ToolExecResult | None = runner.exec_sync(tool_id, args, tool_call_id=call_id)
    except LoopSignal:
        result = None
    assert [type(event) for event in events] == [ToolCallStart, ToolCallResult]
    assert len({event.tool_call_id for event in events}) == 1
    assert events[0].tool_call_id
    if result is not None:
        assert result.tool_call_id == result.record.tool_call_id == events[0].tool_call_id
        assert events[1].is_error is not result.ok
        said = result.value
        if not result.ok:  # the model's text may also name fields that the model made up
            said = {**json.loads(result.content), "message": result.safe_message}
        assert events[1].result == said
        assert (result.error_code is None, result.safe_message is None) == (result.ok, result.ok)
    assert runner.summary.to_json()["calls"] == 1


async def test_every_call_of_a_turn_answered_on_one_ordered_channel() -> None:
    """EVERY_CALL_ANSWERED, ONE_ORDERED_EVENT_CHANNEL."""
    calls = [
        (f"c{n}", name, '{"text": "x"}') for n, name in enumerate(["web__search", "denied", "web__search", "absent"])
    ]
    for parallel in (1, 4):
        events: list[Any] = []
        runner = ToolRunner([TOOL], policy=ALLOW, emit=events.append, max_parallel=parallel)
        results = await runner.exec_many(calls)
        assert [result.tool_call_id for result in results] == ["c0", "c1", "c2", "c3"]
        for call_id in ("c0", "c1", "c2", "c3"):
            own = [type(event) for event in events if event.tool_call_id == call_id]
            assert own == [ToolCallStart, ToolCallResult]
        if parallel == 1:
            assert [event.tool_call_id for event in events] == [f"c{n}" for n in range(4) for _ in range(2)]


@pytest.mark.parametrize("code", ToolErrorCode)
def test_safe_message_is_from_table(code: ToolErrorCode) -> None:
    """SAFE_MESSAGE_IS_FROM_TABLE, for every code there is."""

    def fails(params: Query, *, context: ToolContext) -> ToolResult[Found]:
        raise ToolFailure(code) from RuntimeError(CANARY)

    runner = ToolRunner([dataclasses.replace(TOOL, handler=fails)], policy=ALLOW)
    result = runner.exec_sync("web__search", {"text": "x"})
    assert (result.error_code, result.safe_message) == (code, SAFE_MESSAGES[code])
    assert result.record.error == {"code": code, "message": SAFE_MESSAGES[code]}


def test_safe_message_of_wrong_arguments_names_declared_fields_only() -> None:
    """SAFE_MESSAGE_IS_FROM_TABLE: the table's sentence, then paths."""
    result = events_of(json.dumps({CANARY: CANARY}))[-1]
    table = SAFE_MESSAGES[ToolErrorCode.VALIDATION]
    assert result.safe_message == f"{table} Found: text: is required; unknown field; known: text."


async def waiting_handler(params: Query, *, context: ToolContext) -> ToolResult[Found]:
    await asyncio.sleep(60)
    raise AssertionError


async def test_budgets_enforced() -> None:
    """BUDGETS_ENFORCED: time in the handler, bytes of the result, tokens of the run."""
    spent = BudgetTracker(Budget(max_total_tokens=1))
    spent.record_cumulative("e", TokenUsage(2))
    tool = dataclasses.replace(TOOL, handler=waiting_handler)
    runs = {
        "timeout": ToolRunner([tool], policy=ToolPolicy(("web__search",), budgets=Budgets(max_runtime_ms=5))),
        "result_too_large": ToolRunner(
            [TOOL], policy=ToolPolicy(("web__search",), budgets=Budgets(max_result_bytes=5))
        ),
        "budget_exceeded": ToolRunner([tool], policy=ALLOW, resources={BudgetTracker: spent}),
    }
    for code, runner in runs.items():
        assert (await runner.exec("web__search", {"text": "x"})).error_code == code


async def test_unknown_outcome_of_a_change_that_ran_out_of_time() -> None:
    """UNKNOWN_OUTCOME is an error of its own, and says not to repeat."""
    policy = ToolPolicy(("web__search",), budgets=Budgets(max_runtime_ms=5))
    for effect in (ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT):
        runner = ToolRunner([dataclasses.replace(TOOL, handler=waiting_handler, effect=effect)], policy=policy)
        result = await runner.exec("web__search", {"text": "x"})
        assert result.error_code == "unknown_outcome"
        assert "Check before trying again" in result.content
