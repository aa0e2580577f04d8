"""The parser of a story outline: a Markdown file in which each heading of level two begins a scene.

`## Scene 4 - The gate (POV: Ann)` is the scene "The gate", seen by Ann. A body line `POV: Ann`, also in bold, gives the
point of view if the heading has none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["MAX_SUMMARY", "OutlineScene", "outline_scenes", "scene_body"]

MAX_SUMMARY: Final = 200
"""The most characters of a scene's summary."""

_HEADING = "## "
_POV_SUFFIX = re.compile(r"\s*(?:\(POV:?\s*([^()]*)\)|\[POV:?\s*([^\[\]]*)\])\s*$", re.IGNORECASE)
_NUMBER_PREFIX = re.compile(r"^Scene\s+\d+\s*[:\-\u2013\u2014]\s*", re.IGNORECASE)
_POV_LINE = re.compile(r"^\s*(?:[-*+]\s+)?[*_]*POV[*_]*\s*:\s*[*_]*\s*(.+?)\s*[*_]*\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OutlineScene:
    """A scene of an outline. `number`: its place, from 1; `pov`: whose point of view, None if the outline does not say;
    `start_line`, `end_line`: its lines, from 1, both included; `summary`: the first characters of its body, as one
    line."""

    number: int
    title: str
    pov: str | None
    start_line: int
    end_line: int
    summary: str

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def outline_scenes(lines: Sequence[str]) -> list[OutlineScene]:
    """Returns the scenes of an outline. An outline without a heading of level two has none."""
    starts = [at for at, line in enumerate(lines) if line.startswith(_HEADING)]
    ends = [*starts[1:], len(lines)]
    return [
        _scene(number, lines[start:end], start + 1, end)
        for number, (start, end) in enumerate(zip(starts, ends, strict=False), 1)
    ]


def scene_body(lines: Sequence[str], scene: OutlineScene) -> str:
    """Returns the text of a scene below its heading, with an empty line in place of a line that gives the point of
    view."""
    return "\n".join("" if _POV_LINE.match(line) else line for line in lines[scene.start_line : scene.end_line])


def _scene(number: int, lines: Sequence[str], start_line: int, end_line: int) -> OutlineScene:
    heading, body = lines[0][len(_HEADING) :].strip(), lines[1:]
    suffix = _POV_SUFFIX.search(heading)
    pov = (suffix[1] or suffix[2] or "").strip() if suffix else ""
    title = heading[: suffix.start()] if suffix else heading
    title = _NUMBER_PREFIX.sub("", title).strip()
    found = next((match[1] for line in body if (match := _POV_LINE.match(line))), None)
    summary = " ".join(line.strip() for line in body if line.strip())[:MAX_SUMMARY]
    return OutlineScene(number, title, pov or found or None, start_line, end_line, summary)
