"""The 16 core tools: their ids, and the spellings that stand for them.

Nobody may create, change, delete or shadow a core tool. So an id is compared by the letters that a reader sees: case,
separators, width, accents, invisible characters, look-alike letters, the prefix `core__` and the aliases make no
difference.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Final

from demiurge.errors import UsageError
from demiurge.registry.look_alikes import one_shape, plain_letters
from demiurge.tools.authoring.hidden_text import without_hidden

__all__ = ["ALIASES", "CORE_IDS", "LOCKED", "core_id_of", "locked_error", "normal_id", "require_unlocked"]

LOCKED: Final = "core_tool_locked"
"""The code of the error for an attempt to change a core tool."""

CORE_IDS: Final = (
    "search_issues",
    "file_locator",
    "file_reader",
    "task_router",
    "canon_checker",
    "outline_analyzer",
    "prose_analyzer",
    "consistency_checker",
    "scene_draft_validator",
    "issue_status_summarizer",
    "stakes_mapper",
    "line_editor",
    "scene_impact_analyzer",
    "reader_experience_simulator",
    "timeline_validator",
    "beat_architect",
)

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "file_locator": (
        *("file_viewer", "file_browser", "browse_files", "list_files"),
        *("fileviewer", "filebrowser", "listfiles"),
    ),
    "file_reader": ("read_file", "readfile"),
    "search_issues": ("issue_search", "issues_search", "issue_finder", "issue_tracker_search"),
    "issue_status_summarizer": ("issue_summary", "issue_status_summary", "status_summarizer"),
    "stakes_mapper": ("stakes_map", "stakes_mapping"),
    "line_editor": ("line_edit", "line_editor_tool"),
    "scene_impact_analyzer": ("impact_analyzer", "scene_analyzer"),
    "reader_experience_simulator": ("reader_simulator", "reader_sim"),
    "timeline_validator": ("timeline_check", "timeline_checker"),
    "beat_architect": ("beat_builder", "beat_generator"),
}
"""The other names of the core tools."""


def core_id_of(text: str) -> str | None:
    """Returns the core id that a spelling stands for, None if it stands for none."""
    known = _spellings()
    return next((known[form] for form in _forms(text) if form in known), None)


def require_unlocked(text: str) -> None:
    """Raises UsageError (`core_tool_locked`) if `text` stands for a core tool."""
    core_id = core_id_of(text)
    if core_id is not None:
        raise locked_error(core_id)


def locked_error(core_id: str) -> UsageError:
    """Returns the error for an attempt to change a core tool."""
    return UsageError(
        f"{core_id} is Locked (core): nobody can create, change, delete or shadow it. "
        f"Propose a copy with an id of its own, such as {core_id}_custom.",
        code=LOCKED,
    )


def normal_id(tool_id: str) -> str:
    """Returns the form of a tool's id by which ids are compared: two ids that a reader may take for each other have the
    same form."""
    return one_shape(_letters(tool_id))


@cache
def _spellings() -> dict[str, str]:
    """Returns the core id of each form of a core id or alias."""
    found: dict[str, str] = {}
    for core_id in CORE_IDS:
        for name in (core_id, *ALIASES.get(core_id, ())):
            found |= dict.fromkeys(_forms(name), core_id)
    return found


def _forms(text: str) -> list[str]:
    """Returns the letters and digits that a reader sees in `text`, in lower case, without a prefix `core`. A look-alike
    letter is replaced before and after the change to lower case, because `I` looks like `l` and `i` does not."""
    plain = unicodedata.normalize("NFKD", without_hidden(unicodedata.normalize("NFKC", text)))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    folded = plain.casefold()
    forms = [_letters(folded), _letters(plain_letters(folded)), _letters(plain_letters(plain).casefold())]
    forms = [*forms, *(one_shape(form) for form in forms)]
    return list(dict.fromkeys(form.removeprefix("core") for form in forms if form))


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())
