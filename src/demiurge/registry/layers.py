"""Layer files: the prompt tools of a user or of a project as a file `{"version": 1, "prompts": [record, ...]}`.

Such a file is an export. Anyone may edit it, so nothing in it is live: what it says is compared with what a world has,
and each difference is a proposal. A file that can't be read as a whole is damaged; an entry that can't be used is left
out and named. Both are for a person to mend, so no file with a problem is ever written over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from demiurge.errors import Damaged, InvalidValue
from demiurge.registry.core_ids import LOCKED, core_id_of, locked_error, normal_id
from demiurge.registry.prompt_tool import FIELDS, PromptTool, read_prompt_tool, tool_problems
from demiurge.tools.authoring.hidden_text import spell_hidden, without_hidden
from demiurge.values import canonical_json
from demiurge.values.refs import Ref

__all__ = [
    "MAX_LAYER_BYTES",
    "LayerChange",
    "LayerDamaged",
    "LayerFile",
    "LayerProblem",
    "layer_changes",
    "read_layer",
    "write_layer",
]

VERSION: Final = 1

MAX_LAYER_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of a layer file."""


class LayerDamaged(Damaged):
    """A layer file that can't be read as a whole. Nothing of it is used, and nothing writes over it."""

    code = "layer_damaged"


@dataclass(frozen=True, slots=True)
class LayerProblem:
    """An entry that is left out: `entry` names it (`prompts[3] (scene_pacer)`), `id` is the id that it gives, if that
    is a text. Codes: `core_tool_locked`, `duplicate_id`, `invalid_tool`."""

    entry: str
    id: str | None
    code: str
    message: str

    def to_json(self) -> dict[str, str | None]:
        return {"entry": self.entry, "id": self.id, "code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class LayerFile:
    """The usable tools of a layer file, in its order, and the entries that are left out."""

    tools: tuple[PromptTool, ...]
    problems: tuple[LayerProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class LayerChange:
    """A difference between a layer file and the live tools of its layer: what a proposal says. `tool` is None for
    `delete`; `base` is the digest of the live tool, None for `new`."""

    kind: Literal["new", "modify", "delete"]
    id: str
    tool: PromptTool | None
    base: Ref | None


def read_layer(data: bytes) -> LayerFile:
    """Returns the tools in the bytes of a layer file, and the problems of single entries.

    Raises LayerDamaged for bytes that are no layer file of version 1: not strict JSON in UTF-8, too long, another
    version, or other fields than `version` and `prompts`.
    """
    if len(data) > MAX_LAYER_BYTES:
        raise LayerDamaged(f"A layer file has at most {MAX_LAYER_BYTES} bytes, and this one has more.")
    try:
        found = canonical_json.parse_object(data)
    except InvalidValue as error:
        raise LayerDamaged(error.message) from None
    version = found.get("version")
    if type(version) is not int or version != VERSION:
        raise LayerDamaged('The file does not say `"version": 1`, the only version that this program reads.')
    if found.keys() != {"version", "prompts"} or not isinstance(found["prompts"], list):
        raise LayerDamaged("A layer file has the fields version and prompts, where prompts is a list, and no others.")
    entries = [(_entry_name(at, record), record) for at, record in enumerate(found["prompts"])]
    forms = Counter(normal_id(given) for _, record in entries if (given := _given_id(record)) is not None)
    tools: list[PromptTool] = []
    problems: list[LayerProblem] = []
    for entry, record in entries:
        problem = _problem(record, forms)
        if problem is None:
            tools.append(read_prompt_tool(record))
        else:
            problems.append(LayerProblem(entry, _given_id(record), *problem))
    return LayerFile(tuple(tools), tuple(problems))


def write_layer(tools: Iterable[PromptTool]) -> bytes:
    """Returns the bytes of the layer file with these tools: sorted by id, one field in a line, hidden characters
    escaped. Equal tools give equal bytes. Raises InvalidValue (`layer_too_large`)."""
    records = [tool.to_json() for tool in sorted(tools, key=lambda tool: tool.id)]
    text = json.dumps({"version": VERSION, "prompts": records}, ensure_ascii=False, indent=2)
    data = f"{spell_hidden(text, lambda letter: json.dumps(letter)[1:-1])}\n".encode()
    if len(data) > MAX_LAYER_BYTES:
        raise InvalidValue(
            f"The tools have {len(data)} bytes, and a layer file at most {MAX_LAYER_BYTES}: propose to delete some.",
            code="layer_too_large",
        )
    return data


def layer_changes(pinned: Mapping[str, Ref], file: LayerFile, before: LayerFile | None = None) -> list[LayerChange]:
    """Returns what a file proposes to a layer whose live tools have the digests `pinned`, by id: first what it adds or
    changes, in its order, then what it leaves out.

    `before` is the file that was read or written last: an entry that is as it was there proposes nothing, and only a
    tool that was there is proposed for deletion. An entry with a problem proposes nothing, and some entry without an id
    means that no deletion is proposed.
    """
    known = {tool.id: tool.digest for tool in before.tools} if before is not None else {}
    changes = [
        LayerChange("new" if tool.id not in pinned else "modify", tool.id, tool, pinned.get(tool.id))
        for tool in file.tools
        if tool.digest not in (pinned.get(tool.id), known.get(tool.id))
    ]
    if any(problem.id is None for problem in file.problems):
        return changes
    named = {normal_id(tool.id) for tool in file.tools} | {normal_id(problem.id or "") for problem in file.problems}
    gone = [tool_id for tool_id in sorted(known) if tool_id in pinned and normal_id(tool_id) not in named]
    return [*changes, *(LayerChange("delete", tool_id, None, pinned[tool_id]) for tool_id in gone)]


def _given_id(record: Any) -> str | None:
    found = record.get("id") if isinstance(record, dict) else None
    return found if isinstance(found, str) else None


def _entry_name(at: int, record: Any) -> str:
    given = without_hidden(_given_id(record) or "").replace("\n", " ").strip()
    return f"prompts[{at}] ({given[:48]})" if given else f"prompts[{at}]"


def _problem(record: Any, forms: Mapping[str, int]) -> tuple[str, str] | None:
    """Returns the code and the message of the problem of an entry, None if it can be used."""
    if not isinstance(record, dict):
        return "invalid_tool", "An entry is an object."
    named = [record.get(field) for field in ("id", "targetId", "toolId", "tool")]
    core_id = next((core for text in named if isinstance(text, str) and (core := core_id_of(text))), None)
    if core_id is not None:
        return LOCKED, locked_error(core_id).message
    wrong = [(field, "is no field of a prompt tool") for field in record if field not in FIELDS]
    wrong += tool_problems(record)
    if wrong:
        told = (f"{without_hidden(field)[:48]}: {problem}." for field, problem in wrong[:20])
        return "invalid_tool", " ".join(told)
    if forms[normal_id(record["id"])] > 1:
        return "duplicate_id", "Another entry has this id, or one that looks the same: keep one of them."
    return None
