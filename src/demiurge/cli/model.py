"""`demiurge model`: the weights of the local model, and the process that runs it."""

from __future__ import annotations

import click

from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.hints import runnable
from demiurge.cli.progress import fetch_shown
from demiurge.models.local import LOCAL_MODEL, cache_folder, locate, remove
from demiurge.models.local.engine import prompts_folder
from demiurge.models.local.left_engine import stop_left_engine

__all__ = ["command"]


@click.group(cls=Group, name="model")
def command() -> None:
    pass


@command.command(name="fetch", cls=Command)
@click.argument("source", required=False, metavar="[PATH_OR_URL]")
def fetch(source: str | None) -> None:
    """Download the weights and check their hash; keeps what is already here."""
    path = fetch_shown(source)
    output.result({"model": LOCAL_MODEL.name, "path": str(path), "sha256": LOCAL_MODEL.sha256}, str(path))


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List the local models and their paths."""
    path = locate()
    found = {
        "model": LOCAL_MODEL.name,
        "licence": LOCAL_MODEL.licence,
        "size": LOCAL_MODEL.size,
        "path": str(path) if path is not None else None,
    }
    where = str(path) if path is not None else runnable("not here; fetch it with `demiurge model fetch`")
    rows = [(LOCAL_MODEL.name, f"{LOCAL_MODEL.size / 1e9:.1f} GB", LOCAL_MODEL.licence, where)]
    output.result({"models": [found]}, *output.table(rows, ("MODEL", "SIZE", "LICENCE", "PATH")))


@command.command(name="stop", cls=Command)
def stop() -> None:
    """End the model's process, which goes on for five minutes after its last chat."""
    path = locate()
    ended = path is not None and stop_left_engine(prompts_folder(path))
    output.result({"ended": ended}, "The model's process has ended." if ended else "No process of the model goes on.")


@command.command(name="rm", cls=Command)
def rm() -> None:
    """Delete the weights, also partly downloaded ones."""
    freed = remove()
    summary = f"Freed {freed / 1e6:.0f} MB." if freed else f"There was nothing to remove in {cache_folder()}."
    output.result({"freed": freed}, summary)
