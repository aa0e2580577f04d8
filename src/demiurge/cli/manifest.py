"""`demiurge manifest`: what a world may do, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import click

from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.world import Running, keep, opened, running_options
from demiurge.errors import Conflict
from demiurge.values import cbor
from demiurge.world.manifest import BadManifest, problems, read_folder, system_definitions

__all__ = ["command"]

KINDS = ("schema", "module", "plan", "effect", "cap", "policy", "secret", "toolset")


@click.group(cls=Group, name="manifest")
def command() -> None:
    pass


@command.command(name="get", cls=Command)
@running_options
def get(**running: object) -> None:
    """Print the manifest in force as JSON: schemas, modules, plans, grants, policy, tools."""
    with opened(Running(**running)) as (world, _):  # type: ignore[arg-type]  # click's own names
        output.document(world.manifest())


@command.command(name="check", cls=Command)
@click.argument("folder", metavar="[DIR]", required=False)
@running_options
def check(folder: str | None, **running: object) -> None:
    """Check the manifest in the JSON files of DIR, and say all that is wrong with it at once, each with its file, the
    place in it and what to do. Without DIR: resolve that of the world, and warn of what in the code of its
    reducers may differ at a replay."""
    if folder is not None:
        _check_folder(Path(folder))
        return
    with opened(Running(**running)) as (world, portal):  # type: ignore[arg-type]
        found, ref = world.manifest(), portal.run(world.info())["manifest"]
        doubtful = world.doubts()
    _tell(f"The manifest {ref} is sound", ref, (*found["definitions"], *found["system"]), doubtful)


@command.command(name="set", cls=Command)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@click.option("--shipped", is_flag=True, help="That of the shipped app, in place of DIR.")
@running_options
def set_(folder: Path | None, shipped: bool, **running: object) -> None:
    """Give the world the manifest in the JSON files of DIR. --tools names the Python of its reducers.

    It applies to each unit with the next thing that happens in it; open plans end under the manifest that they began
    with. No other process may have the world open.
    """
    if (folder is None) != shipped:
        raise click.UsageError("Say either DIR or --shipped.")
    means = Running(**running)  # type: ignore[arg-type]
    own = resources.as_file(resources.files("demiurge.apps.demiurge").joinpath("air"))
    with own as app, opened(means, manifest=folder or app) as (world, portal):
        if not world.owned:
            raise Conflict("Another process has this world open; stop it first.", code="owned")
        found, ref = world.manifest(), portal.run(world.info())["manifest"]
        doubtful = world.doubts()
    keep(means)
    _tell(f"The manifest {ref} is in force", ref, (*found["definitions"], *found["system"]), doubtful)


def _check_folder(path: Path) -> None:
    folder = read_folder(path)
    found = problems(folder)
    if found:
        shown = {"ok": False, "problems": [problem._asdict() for problem in found]}
        raise OutcomeError(BadManifest.code, str(BadManifest(found)), shown)
    definitions = [part.content for part in folder.definitions]
    ref = cbor.node_ref([definitions, folder.root()])
    _tell(f"{path} is sound", ref, (*definitions, *system_definitions()))


def _tell(
    sentence: str, ref: str, definitions: Iterable[Mapping[str, Any]], doubtful: Sequence[Mapping[str, Any]] = ()
) -> None:
    kinds = [definition["$kind"] for definition in definitions]
    counts = {kind: kinds.count(f"def{kind}") for kind in KINDS}
    told = ", ".join(_counted(kind, count) for kind, count in counts.items() if count)
    for doubt in doubtful:
        output.notice(f"{doubt['module']}, line {doubt['line']}: {doubt['name']} {doubt['why']}.")
    output.result({"ok": True, "ref": ref, **counts, "warnings": list(doubtful)}, f"{sentence}: {told}.")


def _counted(kind: str, count: int) -> str:
    if count == 1:
        return f"1 {kind}"
    return f"{count} {kind.removesuffix('y') + 'ies' if kind.endswith('y') else kind + 's'}"
