"""The system prompt of a world's chats: the one in force, who put it in force and when."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from demiurge.apps.demiurge import app
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.manifest_change import PROMPT
from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.values import canonical_json, cbor
from demiurge.values.refs import Ref, ref_of
from demiurge.world.messages import user_blob

__all__ = ["MAX_SYSTEM_PROMPT", "SystemPrompt", "checked_system_prompt", "system_prompt_of"]

MAX_SYSTEM_PROMPT: Final = 32_768
"""The most characters of a system prompt that is set."""


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """The text that the model of each chat is told first. `text` is None for a caller who may not read it, if it was
    erased, and before the first event of a world that was opened with a prompt of its own; `ref` is its blob. `by` is
    the actor who put it in force, and `at_ns` the wall time in nanoseconds; both are None before the first event, and
    for the prompt of the app (`is_default`), which anybody may read."""

    text: str | None
    ref: Ref
    is_default: bool
    by: str | None
    at_ns: int | None


def checked_system_prompt(text: object) -> str:
    """Returns a system prompt that may be set. Raises InvalidValue (`system_prompt`)."""
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_SYSTEM_PROMPT:
        raise InvalidValue(f"a system prompt is a text of 1 to {MAX_SYSTEM_PROMPT} characters", path="system_prompt")
    return text


def system_prompt_of(backend: Backend) -> SystemPrompt | None:
    """Returns the system prompt in force in a world; None if it has no chats. Waits for reads; raises as they do."""
    settings = cbor.decode(backend.read.manifest())["root"].get("settings", {})
    if (ref := settings.get("system_ref")) is None:
        return None
    if ref == ref_of(user_blob(app().system_prompt, role="system")):
        return SystemPrompt(app().system_prompt, ref, True, None, None)
    text: str | None = None
    with suppress(DemiurgeError):
        text = _text(canonical_json.parse_object(backend.read.get_blob(ref)))
    changes: list[dict[str, Any]] = []
    with suppress(DemiurgeError):
        changes = backend.read.manifest_log()
    last = next((each for each in reversed(changes) if each["changed"] is None or PROMPT in each["changed"]), None)
    by, at_ns = (last["caller"]["actor"], last["at_ns"]) if last is not None else (None, None)
    return SystemPrompt(text, ref, False, by, at_ns)


def _text(message: dict[str, Any]) -> str:
    said = message["content"]
    return said if isinstance(said, str) else "".join(part["text"] for part in said)
