"""The files of prompt tools on this machine: a layer file of the user, one of the world, and the history's files.

Invariant: a file appears whole or stays as it was, and no link is followed. A layer file is written only over the bytes
that the world wrote or read last, so an edit that nobody looked at is never lost; a file with a problem is left alone
for a person to mend. Entries that this world never had belong to other worlds of the user and are kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from demiurge.bootstrap.secrets import config_folder
from demiurge.errors import Conflict, DemiurgeError, Unavailable
from demiurge.registry.layers import MAX_LAYER_BYTES, LayerDamaged, LayerFile, read_layer, write_layer
from demiurge.registry.prompt_tool import PromptTool
from demiurge.stores.errors import unavailable
from demiurge.stores.private import foreign_entry, make_folders, open_file, open_folder
from demiurge.stores.secret_file import locked_folder, write_private
from demiurge.values.refs import Ref, ref_of

__all__ = ["FoundLayer", "WrittenLayer", "find_layer", "layer_path", "write_history", "write_layer_file"]

FOLDER = "prompts"


class FoundLayer(NamedTuple):
    """The entry at the place of a layer file. `data`: its bytes, None if they can't be read or there are none. `file`:
    its tools, None if nothing of it is usable. `problem`: a sentence about what of it is not used; None without one."""

    path: Path
    data: bytes | None
    file: LayerFile | None
    problem: str | None

    @property
    def digest(self) -> Ref | None:
        return None if self.data is None else ref_of(self.data)

    @property
    def is_missing(self) -> bool:
        return self.data is None and self.problem is None


class WrittenLayer(NamedTuple):
    """A layer file that was written. `kept`: the ids of the entries that belong to other worlds."""

    path: Path
    data: bytes
    kept: tuple[str, ...]


def layer_path(layer: str, world: Path, environment: Mapping[str, str]) -> Path | None:
    """Returns the place of the file of `user` or of `project`. None: no home of the user is known."""
    if layer == "project":
        return world.absolute() / FOLDER / "prompts.json"
    config = config_folder(environment)
    return None if config is None else config.absolute() / FOLDER / "tools.json"


def find_layer(path: Path) -> FoundLayer:
    """Reads a layer file. A file that can't be used is not an error: its problem says why."""
    try:
        data = _read(path)
    except DemiurgeError as error:
        return FoundLayer(path, None, None, error.message)
    if data is None:
        return FoundLayer(path, None, None, None)
    try:
        file = read_layer(data)
    except LayerDamaged as error:
        return FoundLayer(path, data, None, f"{path} is no layer file. {error.message}")
    told = " ".join(f"{problem.entry}: {problem.message}" for problem in file.problems[:20])
    return FoundLayer(path, data, file, f"{path} has entries that can't be used. {told}" if told else None)


def write_layer_file(
    path: Path, tools: Collection[PromptTool], known: Collection[str], seen: Ref | None
) -> WrittenLayer:
    """Writes a layer file with `tools`, durable on return. `known`: the ids that this world has, or had, in this layer;
    other entries of the file are kept. `seen`: the digest of the file that the world wrote or read last.

    Raises LayerDamaged (`layer_damaged`: the file there has a problem), Conflict (`layer_changed`, `duplicate_id`),
    InvalidValue, Unavailable; then the file is as it was.
    """
    _make_folders(path.parent.parent, FOLDER)
    with locked_folder(path.parent):
        found = find_layer(path)
        if found.problem is not None:
            raise LayerDamaged(f"{found.problem} Nothing was written over it: mend it, or move it away.")
        if found.digest not in (None, seen):
            raise Conflict(
                f"{path} was changed by somebody else. Run `demiurge tools sync`, which makes proposals of the "
                "changes, and export again.",
                code="layer_changed",
            )
        others = [tool for tool in (found.file.tools if found.file else ()) if tool.id not in known]
        data = write_layer([*tools, *others])
        if wrong := read_layer(data).problems:
            names = " and ".join(sorted(str(problem.id) for problem in wrong))
            raise Conflict(
                f"{path} can't hold {names}, whose ids look the same: rename one of them.", code=wrong[0].code
            )
        if data != found.data:
            write_private(path, data)
    return WrittenLayer(path, data, tuple(sorted(tool.id for tool in others)))


def write_history(world: Path, files: Iterable[tuple[str, str, Callable[[], bytes | None]]]) -> list[Path]:
    """Writes the files of a world's history that are missing: the id of a tool, a name, and what makes the bytes (None:
    there are none any more). A file that is there is left alone. Returns the places that were written; durable on
    return. Raises Unavailable, and what making the bytes raises."""
    written = []
    top = world.absolute() / FOLDER
    _make_folders(world.absolute(), FOLDER, "history")
    with locked_folder(top):
        for tool_id, name, made in files:
            place = top / "history" / tool_id / name
            data = None if os.path.lexists(place) else made()
            if data is not None:
                _make_folders(top / "history", tool_id)
                write_private(place, data)
                written.append(place)
    return written


def _read(path: Path) -> bytes | None:
    """Returns the bytes of a file, at most one more than a layer file has; None if there is none. Raises Unavailable
    for a link, a special file, or another user's file."""
    try:
        folder = open_folder(path.parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(error, path.parent) from error
    try:
        descriptor = open_file(path, os.O_RDONLY, dir_fd=folder, shared=True)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MAX_LAYER_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(error, path) from error
    finally:
        os.close(folder)


def _unreadable(error: OSError, path: Path) -> Unavailable:
    return Unavailable(f"{path} can't be read ({error.strerror}).")


def _make_folders(above: Path, *names: str) -> None:
    """Makes sure that the folders exist, each in the one before it, for this user alone, and that none is a link."""
    try:
        make_folders(above)
        for name in names:
            above /= name
            os.close(open_folder(above, make=True))
    except (FileExistsError, NotADirectoryError) as error:
        raise foreign_entry(above) from error
    except OSError as error:
        raise unavailable(error, above) from error
