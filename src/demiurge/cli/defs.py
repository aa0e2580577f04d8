"""`demiurge defs`: the definitions of a world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import NotFound
from demiurge.values import cbor

__all__ = ["KINDS", "command", "definitions"]

KINDS = ("schema", "module", "plan", "effect", "cap", "policy", "secret", "toolset")


@click.group(cls=Group, name="defs")
def command() -> None:
    pass


@command.command(name="ls", cls=Command)
@click.argument("prefix", default="")
@click.option(
    "--kind", type=click.Choice(KINDS), metavar="K", help=f"Only this kind: {', '.join(KINDS[:-1])} or {KINDS[-1]}."
)
@running_options
def ls(prefix: str, kind: str | None, **running: Any) -> None:
    """List the definitions whose name begins with PREFIX."""
    with opened(RunOptions(**running)) as (world, _):
        node = world.manifest()
    found = [
        {"kind": _kind(definition), "name": definition["name"], "hash": cbor.node_ref(definition)}
        for definition in definitions(node)
        if definition["name"].startswith(prefix) and kind in (None, _kind(definition))
    ]
    rows = [(entry["kind"], entry["name"], entry["hash"].removeprefix("sha256:")[:12]) for entry in found]
    output.result({"definitions": found}, *output.table(rows, ("KIND", "NAME", "HASH")))


@command.command(name="get", cls=Command)
@click.argument("name")
@running_options
def get(name: str, **running: Any) -> None:
    """Print the definitions with this NAME (such as demiurge/ChatState@1) as JSON."""
    with opened(RunOptions(**running)) as (world, _):
        found = [definition for definition in definitions(world.manifest()) if definition["name"] == name]
    if not found:
        raise NotFound(f"There is no definition {name}; `demiurge defs ls` lists them.", code="no_definition")
    output.document(found[0] if len(found) == 1 else {"definitions": found})


def definitions(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Returns the app's definitions and the built-in ones, by name."""
    yield from sorted((*node["definitions"], *node["system"]), key=lambda d: (str(d["name"]), _kind(d)))


def _kind(definition: Mapping[str, Any]) -> str:
    return str(definition["$kind"]).removeprefix("def")
