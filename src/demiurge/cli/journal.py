"""`demiurge journal`: shows, checks, exports and archives the records of a world."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from demiurge.bootstrap import World
from demiurge.cli import output
from demiurge.cli.argument import read_json, utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.settings import settings
from demiurge.cli.world import opened, visits, while_it_lasts
from demiurge.errors import InvalidValue, NotFound, Unavailable
from demiurge.values.json_view import json_view
from demiurge.world.history.seal import Proof, Seal
from demiurge.world.record import Record, decode_record

__all__ = ["command"]

HEADER = ("POSITION", "UNIT", "SEQ", "KIND", "CAUSE", "WHEN")


@click.group(cls=Group, name="journal")
def command() -> None:
    pass


@command.command(name="head", cls=Command)
def head() -> None:
    """List the units with the number of their records and the hash of the last."""
    with opened() as (world, _):
        heads = world.journal.head()
    rows = [(unit, str(count), digest) for unit, count, digest in heads]
    units = [{"unit": unit, "records": count, "hash": digest} for unit, count, digest in heads]
    output.result({"units": units}, *output.table(rows, ("UNIT", "RECORDS", "HASH")))


@command.command(name="tail", cls=Command)
@click.option("-n", "count", type=click.IntRange(min=0), default=20, show_default=True, help="How many records.")
@click.option("--unit", metavar="U", callback=utf8_text, help="Only this unit, such as demiurge/Demiurge@1/main.")
@click.option("-f", "--follow", is_flag=True, help="Show new records until Ctrl-C.")
def tail(count: int, unit: str | None, follow: bool) -> None:
    """Show the last records, oldest first."""
    if follow and settings().json:
        raise click.UsageError("--follow never ends, so it can't be one JSON document; leave one of the two out.")
    with opened() as (world, _):
        following = _end(world, unit)
        start = max(0, following - count)
        records = list(world.journal.read(unit, start))
        shown = {"records": [_as_json(record) for record in records]}
        output.result(shown, *output.table(map(_row, records), HEADER))
    if follow:
        with suppress(KeyboardInterrupt):
            _follow(unit, following)


@command.command(name="verify", cls=Command)
@click.option("--seal", metavar="SEAL", help="An earlier seal, which the world must still match.")
@click.option(
    "--archive",
    "archives",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="An archive that was moved away, to check too.",
)
def verify(seal: str | None, archives: tuple[Path, ...]) -> None:
    """Check every record, every link and every blob.

    Prints {"records", "units", "seal", "ok"}, "erased" if blobs were erased, and "archived" if records are in archives
    that are not here; only the hashes of those are checked. Exits with 1 and names the first bad record otherwise.
    """
    if seal is not None:
        Seal.parse(seal)  # a mistyped seal must not look like a bad world
    with opened() as (world, _):
        found = world.journal.verify(seal, archives)
    problem, code = found.problem, "damaged"
    if problem is None and not found.sealed:
        problem, code = f"This world never had the seal {seal}: it was shortened or rewritten, or is another.", "seal"
    outcome = {"records": found.records, "units": found.units, "seal": found.seal, "ok": problem is None}
    outcome |= {"erased": found.erased} if found.erased else {}
    outcome |= {"archived": found.archived} if found.archived else {}
    if problem is None:
        output.document(outcome)
        return
    if not settings().json:
        output.document(outcome)
    raise OutcomeError(code, problem, outcome)


@command.command(name="seal", cls=Command)
@click.option(
    "--at", type=click.IntRange(min=0), metavar="POSITION", help="The seal after this record; default: the last."
)
def seal(at: int | None) -> None:
    """Print the world's seal, to be kept elsewhere: the number of its records and a hash over them.

    Reads only records that are new since the last seal, and checks nothing; `verify --seal` does.
    """
    with opened() as (world, _):
        text = world.journal.seal(at)
    output.result({"seal": text}, text)


@command.command(name="prove", cls=Command)
@click.argument("position", type=click.IntRange(min=1))
@click.option("--seal", "seal_text", metavar="SEAL", help="The seal to prove against; default: the newest.")
def prove(position: int, seal_text: str | None) -> None:
    """Print a proof that the record at POSITION is in this journal, for a holder of its seal."""
    with opened() as (world, _):
        output.document(world.journal.prove(position, seal_text).to_json())


@command.command(name="check", cls=Command)
@click.argument("proof")
@click.option("--seal", "seal_text", metavar="SEAL", required=True, help="The seal that you have.")
def check(proof: str, seal_text: str) -> None:
    """Check a PROOF (JSON, @file or @-) that `prove` printed, and show its record. Needs no world."""
    proven, known = Proof.from_json(read_json(proof)), Seal.parse(seal_text)
    if proven.seal != known or not proven.holds():
        raise InvalidValue("This does not prove that its record is under that seal.", code="proof")
    output.document({"ok": True, "record": _as_json(decode_record(proven.data, position=proven.position))})


@command.command(name="export", cls=Command)
@click.option("--unit", metavar="U", callback=utf8_text, help="Only this unit.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout.")
def export(unit: str | None, out: Path | None) -> None:
    """Write the records as JSON lines (with --json: one document).

    Each has `cbor`: its bytes in base64; their SHA-256 is the record's `hash`.
    """
    with opened() as (world, _):
        if unit is not None:
            _end(world, unit)
        records = (_as_json(record) | {"cbor": _base64(record.data)} for record in world.journal.read(unit))
        if settings().json and out is None:
            output.document({"records": list(records)})
        elif out is None:
            _write_lines(records, output.write)
        else:
            output.result({"records": _save(out, records), "file": str(out)}, f"Wrote {out}.")


def _follow(unit: str | None, following: int) -> None:
    async def follow(world: World) -> None:
        """Shows new records; while another process has the world open, also later ones."""
        nonlocal following
        async with aclosing(world.backend.read.appends()) as appends:
            async for _ in appends:
                for record in world.journal.read(unit, following):
                    output.write(output.plain("  ".join(_row(record))))
                    following = (record.unit_seq if unit else record.position or 0) + 1
                if world.owned:
                    return

    for world, portal in visits():
        with while_it_lasts():
            portal.run(follow(world))


@command.command(name="archive", cls=Command)
@click.option(
    "--before",
    type=click.IntRange(min=1),
    metavar="POSITION",
    help="Archive records below this position, however young.",
)
@click.option(
    "--keep", type=click.FloatRange(min=0), default=30, show_default=True, metavar="DAYS", help="Keep younger records."
)
@click.option("--dry-run", is_flag=True, help="Only print what would be archived.")
def archive(before: int | None, keep: float, dry_run: bool) -> None:
    """Move the bytes of old records into compressed files, which can be kept elsewhere.

    The files are in archives/ of the world's folder; while they are there, everything works as before. Other processes
    may use the world meanwhile.
    """
    with opened() as (world, portal):
        found = portal.run(world.archive(keep, before=before, dry_run=dry_run))
    line = f"{'Would archive' if dry_run else 'Archived'} {found.records} records ({found.bytes} bytes)"
    line += f" in {found.segments} files ({found.packed} bytes)" if found.segments else ""
    output.result(asdict(found) | {"dry_run": dry_run}, f"{line}.")


@command.command(name="archives", cls=Command)
def archives() -> None:
    """List the archives: the records in each, and whether its file is here."""
    with opened() as (world, _):
        found = world.journal.archives()
    rows = [
        (*(str(held[name]) for name in ("first", "last", "bytes", "packed")), _yes(held["here"]), held["seal"])
        for held in found
    ]
    output.result({"archives": found}, *output.table(rows, ("FIRST", "LAST", "BYTES", "PACKED", "HERE", "SEAL")))


def _end(world: World, unit: str | None) -> int:
    """Returns the next record's position, or its sequence number in the unit. Raises NotFound."""
    heads = world.backend.read.heads()
    if unit is None:
        return max((head.position for head in heads), default=-1) + 1
    for head in heads:
        if head.unit == unit:
            return head.next_seq
    raise NotFound(f"There is no unit {unit}; `demiurge journal head` lists them.", code="unknown_unit")


def _row(record: Record) -> tuple[str, ...]:
    when = datetime.fromtimestamp(record.stamp.time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    kind = record.kind if "schema" not in record.body else f"{record.kind} {_what(record)}"
    cause = "" if record.cause is None else str(record.cause)
    return str(record.position), record.unit, str(record.unit_seq), kind, cause, when.removesuffix("+00:00") + "Z"


def _what(record: Record) -> str:
    value = record.body.get("value")
    tag = value.get("$tag") if isinstance(value, dict) else None
    return str(tag or record.body["schema"])


def _as_json(record: Record) -> dict[str, Any]:
    """Returns the record as JSON, byte strings in hexadecimal."""
    return {
        "position": record.position,
        "unit": record.unit,
        "seq": record.unit_seq,
        "kind": record.kind,
        "cause": json_view(record.cause),
        "time_ns": record.stamp.time_ns,
        "actor": record.stamp.actor or None,
        "manifest": record.stamp.manifest,
        "body": json_view(record.body),
        "refs": list(record.refs),
        "prev": record.prev.hex(),
        "hash": record.hash.hex(),
    }


def _yes(so: bool) -> str:
    return "yes" if so else "no"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _write_lines(records: Iterable[dict[str, Any]], write: Callable[[str], object]) -> int:
    count = 0
    for record in records:
        write(output.as_json(record))
        count += 1
    return count


def _save(path: Path, records: Iterator[dict[str, Any]]) -> int:
    try:
        with path.open("w", encoding="utf-8") as file:
            return _write_lines(records, lambda line: file.write(line + "\n"))
    except OSError as error:
        raise Unavailable(f"{path} can't be written ({error.strerror}); choose another place.") from error
