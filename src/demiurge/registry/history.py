"""Files of the history of prompt tools: one for each approved version, which says who approved it and what they read.

The world's journal is the history. These files are exports for people, named so that they sort by time and no two have
one name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.tool_diff import to_json, tool_diff
from demiurge.tools.authoring.hidden_text import spell_hidden
from demiurge.values.refs import Ref, parse_ref

__all__ = ["history_file", "history_file_name", "utc_text"]


def history_file(
    snapshot: Mapping[str, Any], version: int, old: PromptTool | None, harness: Mapping[str, Any] | None
) -> bytes:
    """Returns the bytes of a file: the snapshot that an approval made, indented, hidden characters escaped. Added are
    the number of the `version`, the report of the checks, and the fields that changed since `old`, the tool that was
    live before."""
    new = None if snapshot["tool"] is None else PromptTool.from_json(snapshot["tool"])
    document = {**snapshot, "version": version, "harness": harness, "diff": to_json(tool_diff(old, new))}
    text = json.dumps(document, ensure_ascii=False, indent=2)
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
