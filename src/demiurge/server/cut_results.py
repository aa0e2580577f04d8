"""Long public results of calls, cut for a reader who shows their beginning alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["HEAD", "cut_results"]

HEAD: Final = 4000
"""Characters of a result that was cut."""


def cut_results(answers: Sequence[dict[str, Any]], most: int | None) -> None:
    """Replaces each `result` that has more than `most` bytes as JSON by None, and adds `result_cut`: `{bytes, head}`.
    The blob that `view_ref` names has the whole. None cuts nothing."""
    if most is None:
        return
    for answer in answers:
        text = json.dumps(answer.get("result"), ensure_ascii=False, separators=(",", ":"))
        size = len(text.encode("utf-8", "replace"))
        if size > most:
            answer["result"] = None
            answer["result_cut"] = {"bytes": size, "head": text[:HEAD]}
