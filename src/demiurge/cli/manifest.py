"""`demiurge manifest`: what a world may do, as data."""

from __future__ import annotations

import click

from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.world import Running, opened, running_options

__all__ = ["command"]


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
@running_options
def check(**running: object) -> None:
    """Resolve every reference of the manifest, and say all that is wrong with it at once."""
    with opened(Running(**running)) as (world, portal):  # type: ignore[arg-type]
        found, ref = world.manifest(), portal.run(world.info())["manifest"]
    counts = {
        kind: sum(definition["$kind"] == f"def{kind}" for definition in (*found["definitions"], *found["system"]))
        for kind in ("schema", "module", "plan", "effect", "cap", "policy", "secret")
    }
    told = ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items())
    output.result({"ok": True, "ref": ref, **counts}, f"The manifest {ref} is sound: {told}.")
