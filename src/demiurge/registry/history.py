"""Snapshots of prompt tools: one for each approval, which says what became live, who approved it, and what they read.

A snapshot is durable before its tool is live. Its file is an export for people, named so that files sort by time and no
two have one name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.registry.prompt_tool import PromptTool
from demiurge.tools.authoring.hidden_text import spell_hidden
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, parse_ref

__all__ = ["ToolSnapshot", "history_file_name", "utc_text"]


@dataclass(frozen=True, slots=True)
class ToolSnapshot:
    """An approved change. `tool`: the tool that became live, None if it was deleted; `parent`: the digest of the tool
    that was live before, None for a new one. `proposal`: the id of the proposal, and `revision` which one of it was
    approved. `review`: the Chief's review, None if it was skipped. `harness`: the report of the checks. `diff`: the
    fields that changed, as `tool_diff.to_json` gives them. `approved_at` is in nanoseconds since 1970."""

    tool_id: str
    tool: PromptTool | None
    parent: Ref | None
    proposal: str
    revision: int
    approved_by: str
    approved_at: int
    review: Mapping[str, Any] | None
    harness: Mapping[str, Any] | None
    diff: Sequence[Mapping[str, Any]]

    @property
    def version(self) -> Ref | None:
        """The digest of the tool that became live."""
        return None if self.tool is None else self.tool.digest

    def to_json(self) -> dict[str, Any]:
        return {
            "toolId": self.tool_id,
            "tool": None if self.tool is None else self.tool.to_json(),
            "version": self.version,
            "parent": self.parent,
            "proposal": self.proposal,
            "revision": self.revision,
            "approvedBy": self.approved_by,
            "approvedAt": utc_text(self.approved_at),
            "review": self.review,
            "harness": self.harness,
            "diff": list(self.diff),
        }

    def encode(self) -> bytes:
        """Returns the bytes that a world stores."""
        return canonical_json.encode(self.to_json())

    def file_bytes(self) -> bytes:
        """Returns the bytes of the file for people: the same document, indented, hidden characters escaped."""
        text = json.dumps(self.to_json(), ensure_ascii=False, indent=2)
        return f"{spell_hidden(text, lambda letter: json.dumps(letter)[1:-1])}\n".encode()


def history_file_name(time_ns: int, seq: int, digest: Ref) -> str:
    """Returns `<timestamp>-<seq>-<hash8>.json`: the time in UTC, the place of the change in the history of its world
    from 0, and the beginning of the digest of the tool. Names sort by time, and no two changes of a world share one.
    Raises InvalidValue."""
    if seq < 0:
        raise InvalidValue("The place of a change in the history is at least 0.")
    return f"{utc_text(time_ns).replace(':', '').replace('-', '')}-{seq:06d}-{parse_ref(digest)[7:15]}.json"


def utc_text(time_ns: int) -> str:
    """Returns a time as `2026-11-23T09:37:47.123456789Z`. Raises InvalidValue for one before 1970 or after 9999."""
    seconds, rest = divmod(time_ns, 10**9)
    if not 0 <= seconds < 253_402_300_800:
        raise InvalidValue("A time is in nanoseconds since 1970, up to the year 9999.")
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
