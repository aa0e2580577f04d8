"""Workspace trees: folders as content-addressed nodes, files as blobs.

A version of a workspace is the address of its root node `{"entries": [{name, kind, hash, size, mode}]}`, entries
sorted by name (seed 000, workspaces). Writing makes new nodes along one path and shares all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from demiurge.errors import DemiurgeError
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of

__all__ = ["EMPTY", "Entry", "TreeError", "find", "split", "walk", "write"]

SEGMENT = re.compile(r"[A-Za-z0-9._~-]{1,255}")
FILE_MODE, FOLDER_MODE = 0o644, 0o755

EMPTY = cbor.encode({"entries": []})
"""The root node of an empty workspace."""

Get = Callable[[Ref], bytes]


class TreeError(DemiurgeError):
    """A path that can't be: malformed, missing, a folder where a file is wanted."""

    code = "bad_path"


class Entry(NamedTuple):
    path: str
    kind: str
    ref: Ref
    size: int


def split(path: str) -> list[str]:
    """The segments of a path; none for the root. Raises TreeError for anything that is not a plain relative path."""
    if not path:
        return []
    segments = path.split("/")
    for segment in segments:
        if not SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise TreeError("A path has segments of letters, digits and . _ ~ - separated by single slashes.")
    return segments


def _entries(get: Get, root: Ref) -> list[dict[str, Any]]:
    node = cbor.decode(get(root))
    entries: list[dict[str, Any]] = node["entries"]
    return entries


def find(get: Get, root: Ref, path: str) -> Entry | None:
    """The entry at `path` ("" is the root folder), or None."""
    found = Entry("", "dir", root, 0)
    for segment in split(path):
        if found.kind != "dir":
            return None
        entry = next((e for e in _entries(get, found.ref) if e["name"] == segment), None)
        if entry is None:
            return None
        found = Entry(f"{found.path}/{segment}".lstrip("/"), entry["kind"], Ref(entry["hash"]), entry["size"])
    return found


def walk(get: Get, folder: Entry) -> Iterator[Entry]:
    """The direct children of a folder, in name order."""
    for entry in _entries(get, folder.ref):
        yield Entry(f"{folder.path}/{entry['name']}".lstrip("/"), entry["kind"], Ref(entry["hash"]), entry["size"])


def write(get: Get, root: Ref, path: str, blob: Ref, size: int) -> tuple[Ref, list[bytes]]:
    """The root after `path` holds `blob`, and the new nodes. Raises TreeError when a folder is in the way."""
    segments = split(path)
    if not segments:
        raise TreeError("A file needs a name.")
    nodes: list[bytes] = []

    def put(folder: Ref | None, rest: list[str]) -> Ref:
        entries = {e["name"]: e for e in _entries(get, folder)} if folder else {}
        name, old = rest[0], entries.get(rest[0])
        if len(rest) == 1:
            if old is not None and old["kind"] != "file":
                raise TreeError(f"{path} is a folder.")
            mode = old["mode"] if old else FILE_MODE
            entries[name] = {"name": name, "kind": "file", "hash": blob, "size": size, "mode": mode}
        else:
            if old is not None and old["kind"] != "dir":
                raise TreeError(f"{name} is a file, so nothing can be put below it.")
            child = put(Ref(old["hash"]) if old else None, rest[1:])
            entries[name] = {"name": name, "kind": "dir", "hash": child, "size": 0, "mode": FOLDER_MODE}
        node = cbor.encode({"entries": [entries[key] for key in sorted(entries)]})
        nodes.append(node)
        return ref_of(node)

    return put(root, segments), nodes
