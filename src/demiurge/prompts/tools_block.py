"""Describes a section's tools in its text: names, descriptions with details, and example calls.

The schema is not repeated here, because the provider gets it. Examples show exactly what a call would send and what
the model would get.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from textwrap import indent
from typing import Any

from pydantic_core import from_json, to_json

from demiurge.tools.authoring.params import ResultCodec
from demiurge.tools.authoring.tool import Tool, ToolExample
from demiurge.tools.effect import ToolEffect
from demiurge.tools.result import render_value

__all__ = ["examples_text", "tools_block"]


def tools_block(tools: Iterable[Tool[Any, Any]], examples: Mapping[str, str]) -> str:
    """Returns the block; "" without tools. `examples`: `examples_text` of each tool, by name."""
    entries = [_entry(tool, examples[tool.name]) for tool in tools]
    return "\n".join(["Tools:", "", *entries]) if entries else ""


def examples_text(tool: Tool[Any, Any]) -> str:
    """Returns the examples of a tool as nested list items; "" if it has none."""
    if not tool.examples:
        return ""
    inputs = ResultCodec(tool.params_type)
    return "\n".join(_example(tool, example, inputs) for example in tool.examples)


def _arguments(tool: Tool[Any, Any], params: Any, inputs: ResultCodec) -> str:
    """Returns the arguments as a model would write them: what is None by default is left out, because the schema has
    no null."""
    if params is None:
        return "{}"
    tree = from_json(inputs.dump(params))
    return to_json(_as_called(tree, tool.spec.input_schema)).decode()


def _as_called(tree: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(tree, list):
        return [_as_called(item, schema.get("items", {})) for item in tree]
    if not isinstance(tree, dict):
        return tree
    known, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: _as_called(value, known.get(name, {}))
        for name, value in tree.items()
        if not (value is None and name in known and name not in required)
    }


def _entry(tool: Tool[Any, Any], examples: str) -> str:
    effect = "" if tool.effect is ToolEffect.EXTERNAL_SIDE_EFFECT else f" ({tool.effect})"
    head = f"- `{tool.name}`{effect}: {_hanging(tool.spec.model_description, 2)}"
    return f"{head}\n{indent(examples, '  ')}" if examples else head


def _example(tool: Tool[Any, Any], example: ToolExample[Any, Any], inputs: ResultCodec) -> str:
    arguments = _arguments(tool, example.input, inputs)
    result = render_value(example.output, tool.bound.dump(example.output))
    lines = [f"- Example: {_hanging(example.description.strip(), 2)}", f"  - input:{_code(arguments)}"]
    return "\n".join([*lines, f"  - output:{_code(result)}"] if result else lines)


def _code(text: str) -> str:
    """Returns the text as code in a list item two levels down; it may contain anything."""
    if "`" not in text and "\n" not in text and text == text.strip():
        return f" `{text}`"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return "\n" + indent(f"{fence}\n{text}\n{fence}", "    ", lambda line: True)


def _hanging(text: str, width: int) -> str:
    return indent(text, " " * width)[width:]
