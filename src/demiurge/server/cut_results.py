"""Shortens long public results of calls, for a client that displays only the beginning of a result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from demiurge.tools.parts import parts_of

__all__ = ["HEAD", "cut_results"]

HEAD: Final = 4000
"""The number of characters that are kept of a result that was cut."""


def cut_results(answers: Sequence[dict[str, Any]], most: int | None) -> None:
    """Replaces each `result` that has more than `most` bytes as JSON by its parts (None if it has none), and adds
    `result_cut`: `{bytes, head}`. The whole result is in the blob `view_ref`. With `most` None nothing is cut."""
    if most is None:
        return
    for answer in answers:
        text = json.dumps(answer.get("result"), ensure_ascii=False, separators=(",", ":"))
        size = len(text.encode("utf-8", "replace"))
        if size > most:
            parts = parts_of(answer.get("result"))
            answer["result"] = {"parts": parts} if parts else None
            answer["result_cut"] = {"bytes": size, "head": text[:HEAD]}
