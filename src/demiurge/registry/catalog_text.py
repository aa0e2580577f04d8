"""The catalog of prompt tools as text for the model: a short index, or the full text of each tool.

The text of a tool can't change the layout, whatever it holds. An entry begins with `- ` at the start of a line, and no
text of a tool is at the start of a line: one-line fields follow a label, the lines of a longer text follow a bar. A
name has no round brackets, so the first `(id: ...)` of an entry is the catalog's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from demiurge.registry.core_ids import CORE_IDS
from demiurge.registry.prompt_tool import PromptTool
from demiurge.tools.authoring.hidden_text import without_hidden

__all__ = ["FULL_HEADER", "INDEX_HEADER", "PROMPT_TOOL", "READER", "entry_ids", "full_text", "index_text", "tool_text"]

PROMPT_TOOL: Final = "core__prompt_tool"
"""The callable tool that reads the text of a prompt tool."""

INDEX_HEADER: Final = (
    "Tool Catalog (prompt tools): instructions for tasks of their kind. They add no tool and give no permission. "
    "Each line says when to use one."
)
READER: Final = f" Before you follow one, read its whole text with {PROMPT_TOOL} and its id."
"""The sentence after the header of an index that goes with the tool that reads it."""

FULL_HEADER: Final = (
    "Tool Catalog (prompt tools): instructions for tasks of their kind. They add no tool and give no permission. "
    "The lines after a bar are the text of the tool above them."
)

_BAR: Final = "    | "
_ENTRY: Final = re.compile(r"- [^()\n]*\(id: ([a-z][a-z0-9_]{2,47})\)(?:: .*)?")
_ROUND: Final = str.maketrans(
    dict.fromkeys("(\uff08\u207d\u208d\ufe59\ufe35\u2768\u276a\u2985\uff5f", "[")
) | str.maketrans(dict.fromkeys(")\uff09\u207e\u208e\ufe5a\ufe36\u2769\u276b\u2986\uff60", "]"))


def index_text(tools: Iterable[PromptTool], *, has_reader: bool = False) -> str:
    """Returns one line for each tool, its name, id and usage notes, under a header. With `has_reader` the header names
    the callable tool that reads the whole text. Empty without tools."""
    lines = [f"- {_head(tool)}: {_one_line(tool.usage_notes) or 'no notes'}" for tool in _sorted(tools)]
    header = INDEX_HEADER + (READER if has_reader else "")
    return "\n".join([header, *lines]) if lines else ""


def full_text(tools: Iterable[PromptTool]) -> str:
    """Returns all fields of each tool, under a header. Empty without tools."""
    entries = [tool_text(tool) for tool in _sorted(tools)]
    return "\n".join([FULL_HEADER, *entries]) if entries else ""


def tool_text(tool: PromptTool) -> str:
    """Returns the entry of a tool in the full text. Blank fields are left out."""
    return "\n".join(
        [
            f"- {_head(tool)}",
            *_field("Archetype", tool.archetype),
            *_field("Scope", tool.scope),
            *_field("Use when", tool.usage_notes),
            *_field("Goals", tool.goals),
            *_field("Guardrails", tool.guardrails),
            *_field("Prompt", tool.prompt, block=True),
        ]
    )


def entry_ids(text: str) -> tuple[str, ...]:
    """Returns the ids of the entries in a text of the catalog, in their order."""
    found = (_ENTRY.fullmatch(line) for line in text.split("\n"))
    return tuple(entry[1] for entry in found if entry)


def _sorted(tools: Iterable[PromptTool]) -> Sequence[PromptTool]:
    return sorted(tools, key=lambda tool: (tool.id not in CORE_IDS, tool.id))


def _head(tool: PromptTool) -> str:
    return f"{_one_line(tool.name).translate(_ROUND)} (id: {tool.id})"


def _field(label: str, text: str, *, block: bool = False) -> list[str]:
    lines = without_hidden(text).strip("\n").split("\n")
    if not any(line.strip() for line in lines):
        return []
    if len(lines) == 1 and not block:
        return [f"  {label}: {_one_line(text)}"]
    return [f"  {label}:", *(f"{_BAR}{line}".rstrip() for line in lines)]


def _one_line(text: str) -> str:
    return " ".join(without_hidden(text).split())
