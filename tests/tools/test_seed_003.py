"""The invariants of seed 003 that this package carries, each by its name."""

from __future__ import annotations

import ast
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import demiurge.tools
from demiurge.errors import InvalidValue
from demiurge.tools import (
    CORE_TOOLS,
    PromptValidationError,
    Redaction,
    StaticToolSource,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolCatalog,
    ToolContext,
    ToolEffect,
    ToolInvocationRecord,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolSpec,
    compile_schema,
)
from demiurge.tools.bound import BoundTool
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


def test_01_tools_via_toolrunner_only_one_module_calls_handlers() -> None:
    callers = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr == "call":  # type: ignore[attr-defined]
                callers.add(file.name)
    assert callers == {"run.py"}


def test_03_tools_io_via_capabilities() -> None:
    assert all(tool.capabilities for tool in CORE_TOOLS)
    runner = ToolRunner(CORE_TOOLS, policy=ToolPolicy(tuple(tool.name for tool in CORE_TOOLS)))
    for tool in CORE_TOOLS[1:]:
        required = tool.spec.input_schema.get("required", [])
        assert runner.exec_sync(tool.name, dict.fromkeys(required, "x")).error_code == "unavailable"


def test_04_redaction_required() -> None:
    with pytest.raises(PromptValidationError):
        dataclasses.replace(TOOL, redaction=None)  # type: ignore[arg-type]
    start, end, result = events_of({"text": "x"})
    assert result.value == end.result == result.record.result == {"count": 1}
    assert CANARY not in repr((start, end, result.value))


def test_05_toolcallid_stable() -> None:
    for args in ({"text": "x"}, {"text": 1}, "{", {"text": "raise"}):
        start, end, result = events_of(args)
        assert isinstance(start, ToolCallStart)
        assert isinstance(end, ToolCallResult)
        assert start.tool_call_id == end.tool_call_id == result.tool_call_id == result.record.tool_call_id == "c1"


def test_10_tool_semantics_canonical() -> None:
    names = [field.name for field in dataclasses.fields(ToolSpec)]
    assert names == ["name", "description", "input_schema", "effect", "redaction", "spec_hash"]
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


def test_10_a_spec_hash_covers_everything_else() -> None:
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


def test_13_json_schema7_parameters_compile_deterministically() -> None:
    assert json.dumps(compile_schema(Query)) == json.dumps(TOOL.spec.input_schema)
    assert not {"$schema", "title", "$defs"} & set(TOOL.spec.input_schema)


def test_14_no_manual_schema_duplication() -> None:
    for tool in (*CORE_TOOLS, TOOL):
        assert tool.spec.input_schema == compile_schema(tool.params_type)
    with pytest.raises(TypeError):
        Tool[Query, Found](name="t", description="d", handler=search, input_schema={})  # type: ignore[call-arg]


def test_16_tool_id_namespaced() -> None:
    for tool in CORE_TOOLS:
        assert is_tool_id(tool.name)
        assert is_reserved(tool.name)
    assert canonical_id("workspace.read") == "workspace__read"
    with pytest.raises(PromptValidationError):
        dataclasses.replace(TOOL, name="mcp__mine__tool")


def test_17_effect_typed() -> None:
    assert {effect.value for effect in ToolEffect} == {"read_only", "state_change", "external_side_effect"}
    with pytest.raises(PromptValidationError):
        dataclasses.replace(TOOL, effect="harmless")  # type: ignore[arg-type]


def test_18_catalog_is_explicit() -> None:
    assert ToolCatalog.compile([TOOL, *CORE_TOOLS], ALLOW).specs() == (TOOL.spec,)


def test_19_policy_is_data() -> None:
    again = ToolPolicy.from_json(json.loads(json.dumps(ALLOW.to_json())))
    assert again == ALLOW
    assert ToolPolicy(()).digest != ALLOW.digest


def test_20_deny_by_default() -> None:
    for policy in (None, ToolPolicy(), ToolPolicy(("other",))):
        for tool_id in ("web__search", "unknown"):
            assert events_of({"text": "x"}, policy, tool_id)[-1].error_code == "policy_denied"


def test_20_require_approval_without_a_person_is_denied() -> None:
    asking = ToolPolicy(("web__search",), (ToolEffect.READ_ONLY,))
    assert events_of({"text": "x"}, asking)[-1].error_code == "policy_denied"


def test_22_tool_id_stability() -> None:
    with pytest.raises(PromptValidationError):
        StaticToolSource([TOOL, dataclasses.replace(TOOL)])


def test_24_what_a_source_lists_is_what_it_runs() -> None:
    source = StaticToolSource([TOOL, *CORE_TOOLS])
    for spec in source.specs():
        bound = source.get(spec.name)
        assert bound is not None
        assert bound.spec is spec


async def test_25_same_path_for_a_tool_that_is_not_authored_here() -> None:
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


def test_26_connection_id_only() -> None:
    @dataclass
    class Tied:
        connection_id: str

    with pytest.raises(InvalidValue):
        compile_schema(Tied)
    fields = {field.name for kind in (ToolContext, ToolPolicyContext) for field in dataclasses.fields(kind)}
    assert not fields & {"token", "access_token", "api_key", "headers", "secret", "credential", "credentials"}


@pytest.mark.parametrize(
    "args",
    [
        f'{{"text": "{CANARY}"',
        f'{{"text": ["{CANARY}"]}}',
        f'{{"text": "x", "{CANARY}": 1}}',
        f'{{"text": "x", "more": "{CANARY}"}}',
        f"[{json.dumps(CANARY)}]",
        '{"text": "raise"}',
    ],
)
def test_nothing_private_is_in_events_or_safe_messages(args: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    *events, result = events_of(args)
    assert not result.ok
    assert CANARY not in repr((events, result.safe_message, result.content, result.value, result.record.public()))
    assert CANARY not in caplog.text


def test_a_denied_calls_arguments_and_odd_names_are_in_no_event() -> None:
    for tool_id in ("unknown", f"{CANARY} is no id"):
        *events, result = events_of(json.dumps({"text": CANARY}), ToolPolicy(), tool_id)
        assert CANARY not in repr((events, result))
