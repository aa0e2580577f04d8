"""Workspace trees: folders as content-addressed nodes, files as blobs.

A version of a workspace is the address of its root node `{"entries": [{name, kind, hash, size, mode, annotations?}],
"annotations"?}`, entries sorted by name. Only the root node holds its own annotations; those of every other file or
folder are in its entry. A change makes new nodes along one path and shares all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_of

__all__ = [
    "EMPTY",
    "Change",
    "TreeEntry",
    "TreeError",
    "annotate",
    "check_new_name",
    "check_new_path",
    "diff",
    "find",
    "remove",
    "split",
    "walk",
    "write",
]

NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._~-]{1,256}")
SEGMENT = re.compile(r"[A-Za-z0-9._~-]{1,255}")
MAX_DEPTH = 64
FILE_MODE, FOLDER_MODE = 0o644, 0o755
ANNOTATIONS_BYTES = 16 * 1024
"""The most bytes that the annotations of one path take, names and texts together."""

EMPTY = cbor.encode({"entries": []})
"""The root node of an empty workspace."""
_EMPTY_REF = ref_of(EMPTY)

Get = Callable[[Ref], bytes]
Changed = tuple[Ref, list[bytes]]
"""The new root, and the new nodes."""


class TreeError(DemiurgeError):
    """A path cannot be used: it is malformed, missing, or a folder where a file is needed."""

    code = "bad_path"


class TreeEntry(NamedTuple):
    """A file or folder of a tree: `kind` is `file` or `dir`, `ref` its blob or node, `size` in bytes (0: folder)."""

    path: str
    kind: str
    ref: Ref
    size: int
    mode: int = FILE_MODE
    annotations: Mapping[str, str] = MappingProxyType({})


class Change(NamedTuple):
    """A difference at a path. `old` or `new` is None where the path is missing."""

    path: str
    kind: str
    old: Ref | None
    new: Ref | None


@dataclass(slots=True)
class _Folder:
    entries: dict[str, dict[str, Any]]
    annotations: Mapping[str, str]

    def encode(self) -> bytes:
        node: dict[str, Any] = {"entries": [self.entries[name] for name in sorted(self.entries)]}
        return cbor.encode(node | ({"annotations": dict(self.annotations)} if self.annotations else {}))


def split(path: str) -> list[str]:
    """Returns the segments of a path; none for the root. Raises TreeError unless it is a plain relative path."""
    if not path:
        return []
    segments = path.split("/")
    if len(segments) > MAX_DEPTH:
        raise TreeError(f"A path has at most {MAX_DEPTH} segments.")
    for segment in segments:
        if not SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise TreeError("A path has segments of letters, digits and . _ ~ - separated by single slashes.")
    return segments


def check_new_name(workspace: str) -> None:
    """Raises InvalidValue for a name that a new workspace may not have. An older workspace of such a name can still be
    read."""
    if not NAME.fullmatch(workspace):
        raise InvalidValue(
            f"invalid workspace name {workspace!r}: write 1 to 256 letters, digits and . _ ~ -, not only dots",
            code="invalid_workspace_name",
        )


def check_new_path(path: str) -> None:
    """Raises TreeError for a path at which nothing can be put: as `split`, and for segments of nothing but dots."""
    if any(not name.strip(".") for name in split(path)):
        raise TreeError("A path has no segment of nothing but dots.")


def _open(get: Get, ref: Ref) -> _Folder:
    """Reads a folder's node. The empty folder needs no stored node."""
    node = cbor.decode(EMPTY if ref == _EMPTY_REF else get(ref))
    return _Folder({entry["name"]: entry for entry in node["entries"]}, node.get("annotations", {}))


def _entry(folder: str, entry: Mapping[str, Any]) -> TreeEntry:
    path = f"{folder}/{entry['name']}".lstrip("/")
    return TreeEntry(
        path, entry["kind"], Ref(entry["hash"]), entry["size"], entry["mode"], entry.get("annotations", {})
    )


def find(get: Get, root: Ref, path: str) -> TreeEntry | None:
    """Returns the entry at `path` ("" is the root folder), or None."""
    segments = split(path)
    found = TreeEntry("", "dir", root, 0, FOLDER_MODE, {} if segments else _open(get, root).annotations)
    for segment in segments:
        entry = _open(get, found.ref).entries.get(segment) if found.kind == "dir" else None
        if entry is None:
            return None
        found = _entry(found.path, entry)
    return found


def walk(get: Get, folder: TreeEntry) -> Iterator[TreeEntry]:
    """Yields the direct children of a folder, in name order."""
    for entry in _open(get, folder.ref).entries.values():
        yield _entry(folder.path, entry)


# -- changing ----------------------------------------------------------------------------------------------------------


def write(get: Get, root: Ref, path: str, blob: Ref, size: int) -> Changed:
    """Puts `blob` at `path`; mode and annotations stay. Raises TreeError if a folder is at `path` or a file is above
    it."""
    *folders, name = split(path) or _refuse("A file needs a name.")

    def edit(folder: _Folder) -> None:
        old = folder.entries.get(name, {"name": name, "kind": "file", "mode": FILE_MODE})
        if old["kind"] != "file":
            raise TreeError(f"{path} is a folder.")
        folder.entries[name] = {**old, "hash": blob, "size": size}

    return _changed(get, root, folders, edit, create=True)


def remove(get: Get, root: Ref, path: str) -> Changed:
    """Removes `path`. Raises TreeError if the path does not exist or is a folder that is not empty."""
    *folders, name = split(path) or _refuse("The top folder can't be removed.")

    def edit(folder: _Folder) -> None:
        old = folder.entries.pop(name, None)
        if old is None:
            raise TreeError(f"There is no {path}.", code="not_found")
        if old["kind"] == "dir" and _open(get, Ref(old["hash"])).entries:
            raise TreeError(f"{path} is a folder that is not empty.", code="not_empty")

    return _changed(get, root, folders, edit)


def annotate(get: Get, root: Ref, path: str, patch: Mapping[str, str | None]) -> Changed:
    """Merges `patch` into the annotations of `path`; a None removes one.

    Raises TreeError if the path does not exist or the annotations become too long.
    """
    segments = split(path)

    def patched(old: Mapping[str, str]) -> dict[str, str]:
        new = {name: text for name, text in {**old, **patch}.items() if text is not None}
        if sum(len(name.encode()) + len(text.encode()) for name, text in new.items()) > ANNOTATIONS_BYTES:
            raise TreeError(f"The annotations of a path take at most {ANNOTATIONS_BYTES} bytes.", code="too_large")
        return new

    def edit(folder: _Folder) -> None:
        if not segments:
            folder.annotations = patched(folder.annotations)
            return
        old = folder.entries.get(segments[-1])
        if old is None:
            raise TreeError(f"There is no {path}.", code="not_found")
        plain = {name: value for name, value in old.items() if name != "annotations"}
        annotations = patched(old.get("annotations", {}))
        folder.entries[segments[-1]] = plain | ({"annotations": annotations} if annotations else {})

    return _changed(get, root, segments[:-1], edit)


def _refuse(message: str) -> list[str]:
    raise TreeError(message)


def _changed(
    get: Get, root: Ref, folders: list[str], edit: Callable[[_Folder], None], *, create: bool = False
) -> Changed:
    """Applies `edit` to the folder at the end of `folders`. With `create`, missing folders are made."""
    nodes: list[bytes] = []

    def put(ref: Ref, rest: list[str]) -> Ref:
        folder = _open(get, ref)
        if rest:
            name, old = rest[0], folder.entries.get(rest[0])
            if old is None and not create:
                raise TreeError(f"There is no folder {name}.", code="not_found")
            if old is not None and old["kind"] != "dir":
                raise TreeError(f"{name} is a file, so nothing can be put below it.")
            child = put(Ref(old["hash"]) if old else _EMPTY_REF, rest[1:])
            made = {"name": name, "kind": "dir", "size": 0, "mode": FOLDER_MODE}
            folder.entries[name] = {**(old or made), "hash": child}
        else:
            edit(folder)
        node = folder.encode()
        nodes.append(node)
        return ref_of(node)

    return put(root, folders), nodes


# -- comparing ---------------------------------------------------------------------------------------------------------


def diff(get: Get, old: TreeEntry | None, new: TreeEntry | None) -> Iterator[Change]:
    """Yields the paths that differ between two trees, in no particular order; equal parts are not opened.

    A folder differs if it was added or removed or its own annotations changed, not because of its contents.
    """
    if old == new:
        return
    if old is not None and new is not None and old.kind != new.kind:
        yield from diff(get, old, None)
        yield from diff(get, None, new)
        return
    entry = old or new
    assert entry is not None
    alike = old is not None and new is not None and old.annotations == new.annotations and old.mode == new.mode
    if not (alike and entry.kind == "dir"):
        yield Change(entry.path, entry.kind, old and old.ref, new and new.ref)
    if entry.kind == "dir":
        before = {child.path: child for child in walk(get, old)} if old else {}
        after = {child.path: child for child in walk(get, new)} if new else {}
        for path in before | after:
            yield from diff(get, before.get(path), after.get(path))
