"""The newer fields of the chat's definitions. A manifest that a world brings of its own may lack them, if it was copied
from an older version of the app.

Such a chat works without them. An option that needs a missing field is refused by name, before anything is recorded.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from demiurge.errors import InvalidValue
from demiurge.values.schema import Schemas

__all__ = ["lacking_fields", "require_fields"]

_NEWER: Final = {
    "demiurge/ChatState@1": (
        "own_max_tokens",
        "own_tools_ref",
        "title_ref",
        "first_message_at_ms",
        "archived",
        "deleted",
    ),
    "demiurge/ChatCreated@1": ("title_ref",),
    "demiurge/ChatRenamed@1": ("title", "title_ref"),
    "demiurge/ChatArchived@1": ("archived",),
    "demiurge/ChatDeleted@1": ("chat_id",),
    "demiurge/ChatImported@1": ("messages",),
    "demiurge/ChatTools@1": ("tools_ref", "tool_choice"),
    "demiurge/UserMessage@1": ("own_max_tokens", "catalog_ref"),
    "demiurge/Turn@1": ("catalog_ref",),
}
_NEEDED: Final = {
    "max_tokens": ("demiurge/UserMessage@1.own_max_tokens", "demiurge/ChatState@1.own_max_tokens"),
    "rename": ("demiurge/ChatRenamed@1.title_ref", "demiurge/ChatState@1.title_ref"),
    "import": ("demiurge/ChatImported@1.messages",),
    "archive": ("demiurge/ChatArchived@1.archived", "demiurge/ChatState@1.archived"),
    "delete": ("demiurge/ChatDeleted@1.chat_id", "demiurge/ChatState@1.deleted"),
    "use_tools": ("demiurge/ChatTools@1.tools_ref", "demiurge/ChatState@1.own_tools_ref"),
}
"""The fields that each option or method of `Chat` needs in the definitions of a world."""


def lacking_fields(schemas: Schemas) -> list[str]:
    """Returns the newer fields that these schemas do not have, each as `schema.field`."""
    lacking = []
    for schema, names in _NEWER.items():
        found = schemas.get(schema).get("record", {}) if schema in schemas.names else {}
        lacking += [f"{schema}.{name}" for name in names if name not in found]
    return lacking


def require_fields(option: str, lacking: Container[str]) -> None:
    """Raises InvalidValue (`older_definitions`) if the manifest lacks a field that this option of a chat needs."""
    missing = [name for name in _NEEDED[option] if name in lacking]
    if missing:
        raise InvalidValue(
            f"the definitions of this world's own manifest are older and lack {' and '.join(missing)}: take those "
            "schemas over from the shipped app's (`demiurge manifest get --json` in a world that has no own manifest).",
            path=option,
            code="older_definitions",
        )
