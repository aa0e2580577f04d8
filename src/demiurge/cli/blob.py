"""`demiurge blob`: raw bytes by address."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from demiurge.cli import output
from demiurge.cli.argument import read_bytes
from demiurge.cli.command import Command, Group
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.errors import Unavailable

__all__ = ["command"]


@click.group(cls=Group, name="blob")
def command() -> None:
    pass


@command.command(name="put", cls=Command)
@click.argument("value")
@click.option("--force", is_flag=True, help="Store the bytes even if they were erased here.")
def put(value: str, force: bool) -> None:
    """Store VALUE (text, @file or @-) byte for byte and print its address.

    Makes a world if there is none.
    """
    data = read_bytes(value)
    with opened(create=True) as (world, _):
        output.document({"hash": world.blobs.put(data, force=force)})


@command.command(name="get", cls=Command)
@click.argument("ref")
@click.option("--raw", is_flag=True, help="Write the raw bytes to stdout.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the bytes to a file.")
def get(ref: str, raw: bool, out: Path | None) -> None:
    """Print the blob REF, or write it to a file."""
    if raw and (settings().json or out is not None):
        raise click.UsageError("--raw goes with neither --json nor --out.")
    with opened() as (world, _):
        data = world.blobs.get(ref)
    if raw:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    if out is not None:
        _save(out, data)
    else:
        output.notice("The bytes are not shown; --raw writes them to stdout, --out FILE to a file.")
    output.document({"hash": ref, "size": len(data)})


@command.command(name="stat", cls=Command)
@click.argument("ref")
def stat(ref: str) -> None:
    """Print the size of the blob REF, after checking its bytes."""
    with opened() as (world, _):
        output.document({"hash": ref, "size": len(world.blobs.get(ref))})


def _save(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Unavailable(f"{path} can't be written ({error.strerror}); choose another place.") from error
