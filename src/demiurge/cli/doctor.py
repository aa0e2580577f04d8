"""`demiurge doctor`: checks everything that Demiurge needs, and says how to repair it.

It changes nothing, and reports of a key only whether it exists; with `--try` it sends one request with it.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.models import MODEL_KEYS
from demiurge.bootstrap.secrets import open_vault, read_secrets, vault_places
from demiurge.bootstrap.trust.adoption import not_adopted
from demiurge.cli import output
from demiurge.cli.check import Check, check_lines
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.mcp_doctor import mcp_checks
from demiurge.cli.model_checks import model_checks, try_check
from demiurge.cli.policy_observe import observing_check
from demiurge.cli.portal import Portal
from demiurge.cli.secrets import declared_secrets
from demiurge.cli.settings import settings
from demiurge.cli.tool_files import file_problems
from demiurge.cli.webhooks import delivery_report
from demiurge.cli.world import opened
from demiurge.errors import DemiurgeError, NotFound
from demiurge.models.scrub import SHORT_SECRET
from demiurge.tools.execution.secret_mask import is_short
from demiurge.world.manifest import ALLOWED_HOSTS
from demiurge.world.secrets import how_to_set
from demiurge.world.unit import Unit

__all__ = ["command"]

PYTHON = (3, 11)
SQLITE = (3, 35, 0)
LITTLE_ROOM = 100 << 20
LOOKED_AT = 32


@click.command(cls=Command, name="doctor")
@click.option("--try", "tries", is_flag=True, help="Send one request of a few tokens with the key; says what it cost.")
def command(tries: bool) -> None:
    """Check the interpreter, SQLite, the disk, keys, the local model and the world, and say how to repair each.

    Exits with 1 if something necessary is broken. Without --try no request is sent, so a key that is set may be wrong.
    """
    found = [check for look in CHECKS for check in look()]
    found += [try_check()] if tries else []
    checks = [replace(each, detail=runnable(each.detail), mend=runnable(each.mend)) for each in found]
    ok = all(check.status != "fail" for check in checks)
    report = {"ok": ok, "checks": [asdict(check) for check in checks]}
    if settings().json and ok:
        output.document(report)
    if not settings().json:
        output.write("\n".join(line for check in checks for line in check_lines(check)))
    if not ok:
        broken = ", ".join(check.name for check in checks if check.status == "fail")
        raise OutcomeError("unhealthy", f"Repair these first: {broken}.", report)


def _interpreter() -> Iterator[Check]:
    detail = f"Python {platform.python_version()} at {sys.executable}"
    good = sys.version_info >= PYTHON
    yield Check("interpreter", "ok" if good else "fail", detail, "" if good else "Install Python 3.11 or newer.")


def _disk() -> Iterator[Check]:
    """Checks the world's disk, and SQLite on it; leaves nothing behind."""
    place = _existing(settings().folder())
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".demiurge-doctor-") as folder:
            yield _sqlite(Path(folder))
    except OSError as error:
        mend = "Choose another folder with -w, or repair its permissions or its disk."
        yield Check("disk", "fail", f"{place} can't be written to ({error.strerror})", mend)
        return
    room = shutil.disk_usage(place).free
    detail = f"{place} can be written to, {room / 1e9:.1f} GB free"
    if room < LITTLE_ROOM:
        yield Check("disk", "warn", detail, "Make room: a world stops taking events when its disk is full.")
    else:
        yield Check("disk", "ok", detail)


def _sqlite(folder: Path) -> Check:
    detail = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < SQLITE:
        return Check("sqlite", "fail", detail, "Use a Python that is built with SQLite 3.35 or newer.")
    try:
        with closing(sqlite3.connect(folder / "check.db")) as database:
            mode = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    except sqlite3.Error as error:
        mode = str(error)
    if mode == "wal":
        return Check("sqlite", "ok", f"{detail} with a write-ahead log")
    mend = "Put the world on a local disk: this one can't keep it safe."
    return Check("sqlite", "fail", f"{detail} without a write-ahead log ({mode})", mend)


def _sockets() -> Iterator[Check]:
    try:
        with socket.create_server(("127.0.0.1", 0)):
            pass
    except OSError as error:
        mend = "Allow this user to listen on 127.0.0.1; the local model needs it."
        yield Check("ports", "warn", f"No port of 127.0.0.1 can be had ({error.strerror})", mend)
    else:
        yield Check("ports", "ok", "127.0.0.1 can be listened on")


def _world() -> Iterator[Check]:
    folder = settings().folder()
    try:
        with opened() as (world, portal):
            info = portal.run(world.info())
            observed = list(observing_check(world, portal, info))
            hosts = world.manifest().get(ALLOWED_HOSTS, ())
            state = "open nowhere else" if world.owned else "open in another process, which serves this one"
            locked, lost = list(_locked(world, portal)), world.lost()
    except NotFound:
        yield Check("world", "ok", f"none in {folder} yet", "`demiurge chat` or `demiurge init` makes one.")
    except DemiurgeError as error:
        yield Check("world", "fail", f"{folder} can't be opened", str(error))
    else:
        origin, missing = info["origin"], ", ".join(info["missing"])
        since = f", a fork of {origin['world_id']} at position {origin['position']}" if origin else ""
        where = f"{info['world_id']} in {folder}{since}, {state}"
        if lost:
            yield Check("world", "fail", f"{where}; part of it is lost", " ".join(lost))
        elif info.get("unfit"):
            yield Check("world", "fail", f"{where}; it can only be looked at", info["unfit"])
        elif not info["adopted"]:
            yield Check("world", "warn", f"{where}; it can only be looked at", not_adopted().message)
        elif missing:
            mend = "Name the Python module that has it: `demiurge init --tools PKG.MOD`."
            yield Check("world", "warn", f"{where}; the code of {missing} is not here", mend)
        elif locked:
            yield Check("world", "fail", f"{where}; {len(locked)} of its units can't be opened", locked[0])
        else:
            yield Check("world", "ok", where)
        yield from observed
        if hosts:
            yield Check("allowed hosts", "ok", f"tools may ask {', '.join(hosts)} by HTTPS")


def _locked(world: World, portal: Portal) -> Iterator[str]:
    """Yields, of the units that were written last, the reasons why some cannot be opened: other reducer code wrote
    them."""
    heads = sorted(world.backend.read.heads(), key=lambda head: head.position, reverse=True)
    for head in heads[:LOOKED_AT]:
        unit = Unit.parse(head.unit)
        try:
            portal.run(world.state(unit.module, unit.key))
        except DemiurgeError as error:
            if error.code == "unchecked":
                yield error.message


def _vault() -> Iterator[Check]:
    """Checks the secret vault and its key, and whether they match."""
    places, vault = vault_places(os.environ), open_vault(os.environ)
    if places is None or vault is None:
        yield Check("vault", "ok", "none: no home folder is known")
        return
    where = f"{places.vault}, its key in {places.key or 'DEMIURGE_VAULT_KEY'}"
    try:
        names = vault.names()
        values = {f"{alias}@{version}": vault.get(alias, version) for alias, version in names}
    except DemiurgeError as error:
        yield Check("vault", "fail", where, error.message)
        return
    short = [name for name, value in values.items() if value is not None and is_short(value.reveal())]
    if find_spec("cryptography") is None:
        mend = "Run `pip install 'demiurge-runtime[connections]'`."
        yield Check("vault", "warn", f"nothing yet in {where}; the package that seals values is not installed", mend)
    elif short:
        yield Check("vault", "warn", f"{', '.join(short)} in {where}: {SHORT_SECRET}", "Use longer values.")
    else:
        detail = f"{len(names)} value{'s' * (len(names) > 1)} in {where}" if names else f"nothing yet in {where}"
        yield Check("vault", "ok", detail, "" if names else "`demiurge secrets set ALIAS` puts the first one there.")


def _secrets() -> Iterator[Check]:
    """Checks each secret of the world; the model's own key only if it is found, because not every model needs one."""
    try:
        declared = declared_secrets()
    except DemiurgeError:
        return  # the check of the world reports it
    try:
        secrets = read_secrets(os.environ, settings().folder())
    except DemiurgeError as error:
        yield Check("secrets", "fail", "no digest of them can be made", error.message)
        return
    for secret in (version for one in declared for version in secrets.versions(one)):
        name = f"secret {secret}"
        first = next((place for place in secrets.check_bindings(secret) if place.state != "absent"), None)
        if first is not None and first.state == "found":
            yield Check(name, "ok", f"found at {first.binding}")
        elif first is not None:
            yield Check(name, "fail", f"refused at {first.binding}", first.why)
        elif (secret.alias, secret.version) not in MODEL_KEYS:
            text = how_to_set(secret)
            yield Check(name, "warn", "has no value", f"{text[0].upper()}{text[1:]}.")


def _webhooks() -> Iterator[Check]:
    """Checks each webhook of the world. The check of the world reports a world that can't be opened."""
    try:
        with opened() as (world, portal):
            found = portal.run(world.webhooks.list())
    except DemiurgeError:
        return
    for one in found:
        if one.state == "stopped":
            mend = f"Mend the receiver and run `demiurge webhooks test {one.id}`, or remove the webhook."
        else:
            mend = "Check that the receiver answers; the notice is tried again." if one.problem is not None else ""
        yield Check(f"webhook {one.name}", "warn" if mend else "ok", delivery_report(one), mend)


def _tool_files() -> Iterator[Check]:
    """Checks the files of prompt tools. The check of the world reports a world that can't be opened."""
    try:
        with opened() as (world, portal):
            found = file_problems(world, portal)
    except DemiurgeError:
        return
    for problem in found:
        yield Check(
            "files of prompt tools", "warn", problem, "Mend the file, or move it away; then `demiurge tools sync`."
        )


def _prompt_tools() -> Iterator[Check]:
    """Names the approved prompt tools whose text is lost, and counts the proposals and issues that wait for somebody.
    The check of the world reports a world that can't be opened."""
    try:
        with opened() as (world, portal):
            damaged = portal.run(world.prompt_tools.damaged())
            states = Counter(proposal.state for proposal in portal.run(world.prompt_tools.proposals()))
            issues = [one for one in portal.run(world.issues.list()) if one.status != "closed" and one.proposal is None]
    except DemiurgeError:
        return
    yield from (Check("prompt tools", "warn", sentence) for sentence in damaged)
    waiting = [
        _counted(states["chief_review"], "proposal", "for the Chief of Staff"),
        _counted(states["user_decision"], "proposal", "for a user"),
        _counted(states["returned"], "proposal", "for the author"),
        _counted(len(issues), "issue", "for an answer"),
    ]
    if any(waiting):
        mend = "`demiurge tools proposals` and `demiurge issues ls` list them."
        yield Check("reviews", "ok", f"waiting: {', '.join(filter(None, waiting))}", mend)


def _counted(number: int, noun: str, whom: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)} {whom}" if number else ""


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (
    _interpreter,
    _disk,
    _sockets,
    model_checks,
    _vault,
    _world,
    _secrets,
    _webhooks,
    mcp_checks,
    _tool_files,
    _prompt_tools,
)


def _existing(folder: Path) -> Path:
    """Returns the nearest existing folder."""
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    return place
