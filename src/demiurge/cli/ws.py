"""`demiurge ws`: the files of a world's workspace, now and at any of its versions; and a person's own edits of them."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import click

from demiurge.bootstrap.workspace import Version, Workspace, workspace_names
from demiurge.cli import output
from demiurge.cli.argument import read_bytes
from demiurge.cli.command import Command, Group
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.values.refs import Ref
from demiurge.world.trees import Change

__all__ = ["command"]

PLACE = re.compile(r"(?P<name>[^@/]+)(?:@(?P<version>[0-9]+))?(?:/(?P<path>.*))?")


class WorkspacePath(NamedTuple):
    """`NAME[@VERSION][/PATH]`; `version` None is the newest."""

    name: str
    version: int | None
    path: str


class PlaceType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4, which is not required
    name = "place"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> WorkspacePath:
        found = PLACE.fullmatch(value)
        if found is None:
            self.fail(f"{value!r} is not NAME[@VERSION][/PATH], such as main@3/notes.txt.", param, ctx)
        version = found["version"]
        return WorkspacePath(
            found["name"], None if version is None else int(version), (found["path"] or "").rstrip("/")
        )


class VersionType(PlaceType):
    """A version as a number, or as a place with a version; the name is empty for a number."""

    name = "version"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> WorkspacePath:
        if value.isascii() and value.isdigit():
            return WorkspacePath("", int(value), "")
        found = super().convert(value, param, ctx)
        if found.version is None:
            self.fail(f"{value!r} names no version: say 3, or main@3.", param, ctx)
        return found


PLACES = PlaceType()
OTHER_VERSION = VersionType()


@click.group(cls=Group, name="ws")
def command() -> None:
    pass


@command.command(name="ls", cls=Command)
@click.argument("place", type=PLACES, metavar="[NAME[@VERSION][/PATH]]", required=False)
def ls(place: WorkspacePath | None) -> None:
    """List a folder; without NAME list the workspaces."""
    if place is None:
        _list_workspaces()
        return
    with opened() as (world, portal):
        entries = portal.run(Workspace(world, place.name).children(place.path, place.version))
    rows = [(entry.path + ("/" if entry.kind == "dir" else ""), str(entry.size)) for entry in entries]
    shown = [{"path": e.path, "kind": e.kind, "size": e.size, "hash": e.ref} for e in entries]
    output.result({"entries": shown}, *(output.table(rows, ("PATH", "BYTES")) if rows else ["(empty)"]))


def _list_workspaces() -> None:
    with opened() as (world, portal):
        names = portal.run(workspace_names(world))
        newest = {name: portal.run(Workspace(world, name).version()) for name in names}
    rows = [(name, str(version.number), _when(version.created_ns)) for name, version in newest.items()]
    shown = [{"workspace": name, "version": version.number} for name, version in newest.items()]
    lines = output.table(rows, ("WORKSPACE", "VERSION", "WHEN")) if rows else ["There is no workspace yet."]
    output.result({"workspaces": shown}, *lines)


@command.command(name="cat", cls=Command)
@click.argument("place", type=PLACES, metavar="NAME[@VERSION]/PATH")
def cat(place: WorkspacePath) -> None:
    """Print a file; on a terminal without control characters."""
    with opened() as (world, portal):
        data = portal.run(Workspace(world, place.name).read(place.path, place.version))
    if settings().json:
        output.document({"path": place.path, "text": data.decode(errors="replace"), "size": len(data)})
    elif output.is_terminal(sys.stdout):
        output.write(output.plain(data.decode(errors="replace")), end="")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


@command.command(name="log", cls=Command)
@click.argument("place", type=PLACES, metavar="NAME")
def log(place: WorkspacePath) -> None:
    """List the versions of a workspace, newest first."""
    with opened() as (world, portal):
        versions = portal.run(Workspace(world, place.name).versions())[::-1]
    rows = [(str(version.number), _when(version.created_ns), version.owner) for version in versions]
    shown = [
        {"version": version.number, "created_at": when, "owner": owner, "root_hash": version.root}
        for version, (_, when, owner) in zip(versions, rows, strict=True)
    ]
    output.result({"versions": shown}, *output.table(rows, ("VERSION", "WHEN", "BY")))


@command.command(name="diff", cls=Command)
@click.argument("place", type=PLACES, metavar="NAME@VERSION[/PATH]")
@click.argument("other", type=OTHER_VERSION, metavar="[NAME@VERSION|VERSION]", required=False)
def diff(place: WorkspacePath, other: WorkspacePath | None) -> None:
    """Show what changed between two versions of a workspace, as in `main@1 main@3` (default: the newest)."""
    if place.version is None:
        raise click.UsageError("Give the version to compare with, as in main@3.")
    if other is not None and other.name not in ("", place.name):
        raise click.UsageError(f"{place.name} and {other.name} are two workspaces; versions of one can be compared.")
    if other is not None and other.path not in ("", place.path):
        raise click.UsageError(f"The places name two paths, {place.path or '/'} and {other.path}; name one.")
    with_version = other.version if other is not None else None
    with opened() as (world, portal):
        workspace = Workspace(world, place.name)
        changes = portal.run(workspace.diff(place.version, with_version, place.path))
        lines = [] if settings().json else [line for change in changes for line in _lines(change, world.blobs.get)]
    shown = [{"path": c.path, "kind": c.kind, "old_hash": c.old, "new_hash": c.new} for c in changes]
    output.result({"changes": shown}, *(lines or ["Nothing changed."]))


def _expected(place: WorkspacePath, expected: int | None) -> int | None:
    """Returns the version that must be the newest, which may be given in two ways."""
    if not place.path:
        raise click.UsageError("Give the file, as in main/notes.txt.")
    if None not in (place.version, expected) and place.version != expected:
        raise click.UsageError(f"The place says version {place.version}, and --expected-version {expected}.")
    return expected if expected is not None else place.version


expected_version = click.option(
    "--expected-version",
    "expected",
    type=click.IntRange(min=0),
    metavar="V",
    help="Fail if V is not the newest version; 0: if the workspace exists.",
)


@command.command(name="write", cls=Command)
@click.argument("place", type=PLACES, metavar="NAME[@VERSION]/PATH")
@click.argument("value", metavar="TEXT|@FILE|@-")
@expected_version
def write(place: WorkspacePath, value: str, expected: int | None) -> None:
    """Write a file, as a new version of the workspace; NAME@VERSION is the same as --expected-version.

    The workspace and its folders are made if they are missing. A version conflict changes nothing.
    """
    wanted, data = _expected(place, expected), read_bytes(value)
    with opened(create=True) as (world, portal):
        version = portal.run(Workspace(world, place.name).write(place.path, data, wanted))
    _tell("Wrote", place, version)


@command.command(name="rm", cls=Command)
@click.argument("place", type=PLACES, metavar="NAME[@VERSION]/PATH")
@expected_version
def rm(place: WorkspacePath, expected: int | None) -> None:
    """Remove a file or an empty folder, as a new version of the workspace."""
    wanted = _expected(place, expected)
    with opened() as (world, portal):
        version = portal.run(Workspace(world, place.name).remove(place.path, wanted))
    _tell("Removed", place, version)


def _tell(did: str, place: WorkspacePath, version: Version) -> None:
    shown = {"workspace": place.name, "version": version.number, "path": place.path, "root_hash": version.root}
    output.result(shown, f"{did} {place.name}@{version.number}/{place.path}.")


def _lines(change: Change, get: Callable[[Ref], bytes]) -> Iterator[str]:
    if change.kind == "dir":
        if change.old is None or change.new is None:
            yield f"{'+' if change.old is None else '-'} {change.path}/"
        return
    old, new = (None if ref is None else _text(get(ref)) for ref in (change.old, change.new))
    if (change.old is not None and old is None) or (change.new is not None and new is None):
        became = "added" if change.old is None else "removed" if change.new is None else "changed"
        yield f"{change.path}: not text, {became}"
        return
    names = ("/dev/null" if old is None else f"a/{change.path}", "/dev/null" if new is None else f"b/{change.path}")
    yield from difflib.unified_diff((old or "").splitlines(), (new or "").splitlines(), *names, lineterm="")


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _when(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
