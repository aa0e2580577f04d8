"""`PromptTool`: one prompt tool, in the eight fields of the registry's schema v0."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.tools.ids import is_reserved
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of

__all__ = ["ARCHETYPES", "FIELDS", "LIMITS", "SCOPES", "PromptTool", "read_prompt_tool", "tool_problems"]

ARCHETYPES: Final = ("", "Any", "Chief", "Planner", "Writer", "Editor", "Critic", "Continuity")
SCOPES: Final = ("", "selection", "file", "project")

FIELDS: Final = ("id", "name", "archetype", "scope", "usageNotes", "goals", "guardrails", "prompt")
"""The fields of schema v0, by their names in JSON, in the order in which they are shown."""

LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "name": (1, 80),
    "usageNotes": (1, 500),
    "goals": (0, 500),
    "guardrails": (0, 1000),
    "prompt": (1, 8000),
}
"""The fewest and the most characters of a text field."""

_ID = re.compile(r"[a-z][a-z0-9_]{2,47}")
_ONE_LINE = ("name", "usageNotes")


@dataclass(frozen=True, slots=True)
class PromptTool:
    """A prompt tool. `id`: stable identifier. `archetype` and `scope` guide the model and restrict nothing.
    `usageNotes`: when to use it, in one line. `prompt`: the text that a model is given."""

    id: str
    name: str
    archetype: str = ""
    scope: str = ""
    usage_notes: str = ""
    goals: str = ""
    guardrails: str = ""
    prompt: str = ""

    def to_json(self) -> dict[str, str]:
        """Returns the record in a layer file."""
        return {
            "id": self.id,
            "name": self.name,
            "archetype": self.archetype,
            "scope": self.scope,
            "usageNotes": self.usage_notes,
            "goals": self.goals,
            "guardrails": self.guardrails,
            "prompt": self.prompt,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, str]) -> PromptTool:
        """Returns the tool of a record that was checked before."""
        return cls(**{_attribute(name): record[name] for name in FIELDS})

    @property
    def digest(self) -> Ref:
        """The version of this tool: the hash of its canonical JSON."""
        return ref_of(canonical_json.encode(self.to_json()))


def read_prompt_tool(given: Mapping[str, Any]) -> PromptTool:
    """Returns the tool in a record, its texts in Unicode NFC and with line feeds. Absent fields are empty. Raises
    InvalidValue (`invalid_tool`) with all problems."""
    wrong = tool_problems(given)
    if wrong:
        raise InvalidValue(" ".join(f"{field}: {problem}." for field, problem in wrong), code="invalid_tool")
    return PromptTool(**{_attribute(name): _plain(given.get(name, "")) for name in FIELDS})


def tool_problems(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what is wrong with the fields of a record: pairs of a field and a problem."""
    texts = {name: given.get(name, "") for name in FIELDS}
    wrong = [(name, "is a text") for name, text in texts.items() if not isinstance(text, str)]
    if wrong:
        return wrong
    texts = {name: _plain(text) for name, text in texts.items()}
    if not _ID.fullmatch(texts["id"]):
        wrong.append(("id", "has 3 to 48 lower-case letters, digits and '_', and begins with a letter"))
    elif is_reserved(texts["id"]):
        wrong.append(("id", f"is one of a tool that can be called: {texts['id'].partition('__')[0]}__ is for those"))
    for name, (fewest, most) in LIMITS.items():
        if not fewest <= len(texts[name].strip()) or len(texts[name]) > most:
            wrong.append((name, f"has {fewest} to {most} characters"))
    wrong += [(name, "is one line") for name in _ONE_LINE if "\n" in texts[name]]
    for name, known in (("archetype", ARCHETYPES), ("scope", SCOPES)):
        if texts[name] not in known:
            wrong.append((name, f"is one of {', '.join(filter(None, known))}, or empty"))
    return wrong


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", "\n".join(text.split("\r\n")).replace("\r", "\n"))


def _attribute(name: str) -> str:
    return "usage_notes" if name == "usageNotes" else name
