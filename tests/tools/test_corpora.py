"""Other people's tools, judged beside an independent validator: those in `golden/`, and all in the corpora that
DEMIURGE_CORPORA may name."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema.protocols import Validator
from tests.tools.schema_values import perturbed, samples

from demiurge.tools import PromptValidationError, Redaction, StaticToolSource, ToolValidationError
from demiurge.tools.bound import BoundTool
from demiurge.tools.context import ToolContext
from demiurge.tools.foreign.tool import foreign_id, foreign_tool
from demiurge.tools.ids import is_tool_id
from demiurge.tools.result import ToolResult

_GOLDEN = Path(__file__).with_name("golden")


@dataclass(frozen=True)
class Listed:
    """A tool as its source lists it, with calls and whether they fit the schema."""

    names: tuple[str, ...]
    description: str
    schema: dict[str, Any]
    is_schema: bool = True
    calls: tuple[tuple[dict[str, Any], bool], ...] = ()

    def bound(self) -> BoundTool:
        return foreign_tool(
            foreign_id(*self.names), self.description, self.schema, _answer, redaction=Redaction.drop_all()
        )

    def judge(self) -> Validator:
        return jsonschema.validators.validator_for(self.schema, default=jsonschema.Draft202012Validator)(self.schema)


def _answer(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
    return ToolResult(message="", value=arguments)


def _rows(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _golden() -> Iterator[Listed]:
    for row in _rows(_GOLDEN / "bfcl.jsonl"):
        calls = tuple((call["arguments"], call["valid"]) for call in row["calls"])
        yield Listed(("bfcl", row["key"], row["name"]), row["description"], row["parameters"], row["valid"], calls)
    for row in _rows(_GOLDEN / "mcp.jsonl"):
        yield Listed(("mcp", row["server"], row["name"]), row["description"], row["inputSchema"])


def _corpora(folder: Path) -> Iterator[Listed]:
    calls: dict[str, list[tuple[dict[str, Any], bool]]] = {}
    for row in _rows(folder / "bfcl_calls.jsonl.gz"):
        calls.setdefault(row["function"], []).append((row["arguments"], row["schema_valid"]))
    for row in _rows(folder / "bfcl_functions.jsonl.gz"):
        known = tuple(calls.get(row["key"], ()))
        names = ("all", row["key"], row["name"])
        yield Listed(names, row["description"], row["parameters"], row["json_schema_valid"], known)
    for server, tools in json.loads((folder / "mcp_tools.json").read_text(encoding="utf-8")).items():
        for row in tools:
            yield Listed(("all", server, row["name"]), row.get("description", ""), row["inputSchema"])


def _all() -> Iterator[Listed]:
    yield from _golden()
    if corpora := os.environ.get("DEMIURGE_CORPORA"):
        yield from _corpora(Path(corpora) / "tool_schemas")


ALL = list(_all())
TOOLS = [tool for tool in ALL if tool.is_schema]


def name_of(tool: Listed) -> str:
    return "/".join(tool.names)


def refusal(tool: BoundTool, arguments: Any) -> tuple[str, ...] | None:
    """What the tool says against the arguments; None if it takes them."""
    try:
        parsed = tool.parse(json.dumps(arguments))
    except ToolValidationError as error:
        return error.fields
    assert parsed == arguments
    return None


def difference(tool: Listed, bound: BoundTool, judge: Validator, arguments: Any) -> str | None:
    """How our verdict differs from the judge's, in value or in place; None if it does not."""
    errors = list(judge.iter_errors(arguments))
    fields = refusal(bound, arguments)
    if not errors or fields is None:
        return None if bool(errors) == (fields is not None) else f"verdict {fields} on {arguments}"
    declared = set(_declared(tool.schema))
    places = {place for error in errors for place in _places(error, declared)}
    strange = [text for text in fields if text != "and more" and not any(_is_at(text, place) for place in places)]
    missed = [place for place in places if "and more" not in fields and not any(_is_at(text, place) for text in fields)]
    return f"places {fields} for {places} on {arguments}" if strange or missed else None


def _is_at(text: str, place: str) -> bool:
    if place.endswith("*union*"):  # said at the union, or deeper, by the arm that was meant
        return text.startswith(place.removesuffix("*union*"))
    if not place:
        return text.startswith(("unknown field", "the object"))
    return text.startswith(f"{place}: ")


def _places(error: jsonschema.ValidationError, declared: set[str]) -> Iterator[str]:
    place = _path(error.absolute_path, declared)
    if error.validator == "required":
        assert isinstance(error.validator_value, list)
        assert isinstance(error.instance, dict)
        missing = [name for name in error.validator_value if name not in error.instance]
        yield from (f"{place}.{name}" if place else name for name in missing)
    else:
        yield place + ("*union*" if error.validator in ("anyOf", "oneOf") else "")


def _path(location: Any, declared: set[str]) -> str:
    path = ""
    for segment in location:
        if isinstance(segment, int):
            path += f"[{segment}]"
        elif segment in declared:
            path += f".{segment}" if path else segment
        else:
            path += "[*]"
    return path


def _declared(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, child in schema.items():
            if key == "properties" and isinstance(child, dict):
                yield from child
            yield from _declared(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from _declared(child)


def values_of(tool: Listed) -> list[dict[str, Any]]:
    """What every perturbation starts from: the expected calls, and values made from the schema."""
    return [arguments for arguments, _ in tool.calls] + list(samples(tool.schema))


def test_names_are_mapped_without_a_collision() -> None:
    for source in (list(_golden()), ALL):
        ids = [foreign_id(*tool.names) for tool in source]
        assert all(is_tool_id(tool_id) for tool_id in ids)
        assert len(set(ids)) == len({tool.names for tool in source})
    plain = [tool.names[-1] for tool in ALL if is_tool_id(tool.names[-1])]
    assert [foreign_id("mcp", "s", name) for name in plain] == [
        f"mcp__s__{name}" if len(name) <= 56 else foreign_id("mcp", "s", name) for name in plain
    ]


def test_all_of_them_are_one_source() -> None:
    assert len(StaticToolSource(tool.bound() for tool in TOOLS).specs()) == len(TOOLS)


@pytest.mark.parametrize("tool", [tool for tool in ALL if not tool.is_schema], ids=name_of)
def test_a_value_that_is_no_schema_is_refused(tool: Listed) -> None:
    with pytest.raises(PromptValidationError) as caught:
        tool.bound()
    assert caught.value.code == "tool_schema"


@pytest.mark.parametrize("tool", TOOLS, ids=name_of)
def test_a_spec_keeps_the_schema_verbatim(tool: Listed) -> None:
    spec = tool.bound().spec
    assert json.dumps(spec.input_schema) == json.dumps(tool.schema)
    assert spec.description == tool.description.strip()


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.calls], ids=name_of)
def test_a_call_is_taken_exactly_if_it_fits(tool: Listed) -> None:
    bound = tool.bound()
    for arguments, fits in tool.calls:
        assert (refusal(bound, arguments) is None) == fits


def closed_schema(schema: Any) -> Any:
    """Derived: the same schema, with no other fields than those that it names."""
    if isinstance(schema, list):
        return [closed_schema(child) for child in schema]
    if not isinstance(schema, dict):
        return schema
    extra = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return {key: closed_schema(child) for key, child in schema.items()} | extra


@pytest.mark.parametrize("form", [dict, closed_schema], ids=["given", "closed"])
@pytest.mark.parametrize("tool", TOOLS, ids=name_of)
def test_slightly_changed_values_are_judged_as_the_independent_validator_judges_them(
    tool: Listed, form: Callable[[Any], Any]
) -> None:
    tool = replace(tool, schema=form(tool.schema))
    bound, judge = tool.bound(), tool.judge()
    for value in values_of(tool):
        assert difference(tool, bound, judge, value) is None
        for changed in perturbed(value):
            if isinstance(changed, dict):
                assert difference(tool, bound, judge, changed) is None
