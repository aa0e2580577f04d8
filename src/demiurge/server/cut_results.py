"""Shortens long results of calls, for a client that displays only the beginning of a result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from demiurge.bootstrap.backend.message_body import json_size
from demiurge.tools.parts import parts_of

__all__ = ["HEAD", "cut_results"]

HEAD: Final = 4000
"""The number of characters that are kept of a result that was cut."""


def cut_results(answers: Sequence[dict[str, Any]], most: int | None) -> None:
    """Replaces each `result` that has more than `most` bytes as JSON by its parts (None if it has none), and adds
    `result_cut`: `{bytes, head}`. The whole result is in the blob `view_ref`. Replaces each `content` of more than
    `most` bytes by its beginning, and adds `content_cut`: `{bytes}`; each `value` that is longer by None, and adds
    `value_cut`. With `most` None nothing is cut."""
    if most is None:
        return
    for answer in answers:
        content = answer.get("content") or ""
        if (length := len(content.encode("utf-8", "replace"))) > most:
            answer |= {"content": content[:HEAD], "content_cut": {"bytes": length}}
        if (length := json_size(answer.get("value"))) > most:
            answer |= {"value": None, "value_cut": {"bytes": length}}
        text = _compact(answer.get("result"))
        if (size := len(text.encode("utf-8", "replace"))) > most:
            parts = parts_of(answer.get("result"))
            answer["result"] = {"parts": parts} if parts else None
            answer["result_cut"] = {"bytes": size, "head": text[:HEAD]}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
