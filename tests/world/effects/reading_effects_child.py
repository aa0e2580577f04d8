"""Processes to be killed, one after the other: each asks for what shows something and changes nothing, and goes on
where the one before it stopped. `reading_effects_child.py FOLDER FAULT`; says how many were killed before one came to
the end.

They are forked, so only the first imports anything."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

from tests.world.effects.effects_child import TEXT, main
from tests.world.small_world import ROOM

from demiurge import faults
from demiurge.values.refs import ref_of
from demiurge.world import trees

HERE = {"workspace": "main"}


def reads_to_request() -> list[tuple[str, dict[str, Any]]]:
    """The first three make what there is to see."""
    root, _ = trees.write(lambda _: trees.EMPTY, ref_of(trees.EMPTY), "a", ref_of(TEXT), len(TEXT))
    return [
        ("blob.put", {"content": {"$tag": "bytes", "$value": b64encode(TEXT).decode()}}),
        ("workspace.write_bytes", {**HERE, "path": "a", "bytes_ref": ref_of(TEXT)}),
        ("workspace.commit", {**HERE, "expected_head": 0, "root_hash": root, "owner": "user"}),
        ("blob.get", {"blob_ref": ref_of(TEXT)}),
        ("workspace.resolve", HERE),
        ("workspace.list", {**HERE, "path": ""}),
        ("workspace.read_ref", {**HERE, "path": "a"}),
        ("workspace.read_bytes", {**HERE, "path": "a"}),
        ("workspace.remove", {**HERE, "path": "a"}),
        ("workspace.diff", {**HERE, "path": "", "version_a": 0}),
        ("workspace.annotations_set", {**HERE, "path": "a", "patch": {"of": "a"}}),
        ("workspace.annotations_get", {**HERE, "path": "a"}),
        ("introspect.manifest", {}),
        ("introspect.state", {"module": ROOM, "key": "a"}),
        ("introspect.journal_head", {}),
        ("introspect.list_cells", {"module": ROOM}),
        ("introspect.schemas", {"prefix": "ex/"}),
        ("introspect.module", {"name": ROOM}),
        ("introspect.tools", {}),
    ]


def run_process(folder: Path, fault: str) -> int:
    """How a process ended; below zero: the signal."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        with faults.armed(dict(faults.parse(fault))):
            asyncio.run(main(folder, reads_to_request()))
        status = 0
    finally:
        os._exit(status)


def request_until_done(folder: Path, fault: str) -> int:
    deaths = 0
    while (status := run_process(folder, fault)) == -signal.SIGKILL:
        deaths += 1
    print(deaths)
    return status


if __name__ == "__main__":
    sys.exit(request_until_done(Path(sys.argv[1]), sys.argv[2]))
