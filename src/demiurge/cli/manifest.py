"""`demiurge manifest`: shows, checks, sets and adopts a world's manifest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import click

from demiurge.bootstrap.manifest import BASES
from demiurge.bootstrap.manifest_settings import folder_problems
from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.defs import KINDS
from demiurge.cli.failure import OutcomeError
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions, keep, opened, running_options
from demiurge.errors import Conflict, InvalidValue
from demiurge.values import cbor
from demiurge.world.manifest import (
    BadManifest,
    difference,
    extended,
    problems,
    read_folder,
    system_definitions,
    unproven_triggers,
)

__all__ = ["command"]


@click.group(cls=Group, name="manifest")
def command() -> None:
    pass


@command.command(name="get", cls=Command)
@running_options
def get(**running: object) -> None:
    """Print the manifest in force, or the one that would be, as JSON: schemas, modules, world plans, grants, the
    world's policy, tools. If it extends the shipped app, `extension` is what the world keeps."""
    with opened(RunOptions(**running)) as (world, _):  # type: ignore[arg-type]  # click's own names
        output.document(world.manifest())


@command.command(name="check", cls=Command)
@click.argument("folder", metavar="[DIR]", required=False)
@running_options
def check(folder: str | None, **running: object) -> None:
    """Check the manifest in the JSON files of DIR. Prints all mistakes at once, each with its file, the place in it and
    what to do. Without DIR: check the world's manifest, and warn of reducer code that may behave differently at a
    replay."""
    if folder is not None:
        _check_folder(Path(folder))
        return
    with opened(RunOptions(**running)) as (world, portal):  # type: ignore[arg-type]
        found, ref = world.manifest(), portal.run(world.info())["manifest"]
        doubtful = world.replay_risks()
    _tell(f"The manifest {ref} is sound", ref, (*found["definitions"], *found["system"]), doubtful)


@command.command(name="set", cls=Command)
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), required=False)
@click.option("--shipped", is_flag=True, help="The manifest of the shipped app, in place of DIR.")
@running_options
def set_(folder: Path | None, shipped: bool, **running: object) -> None:
    """Give the world the manifest in the JSON files of DIR. --tools names the Python of its reducers.

    It applies to each unit with the next thing that happens in it; open plans end under the manifest that they began
    with. If another process has the world open it takes the manifest, provided that it has the same code and tools.
    Else it hands the world over to this process, and can only read once this process has ended.
    """
    if (folder is None) != shipped:
        raise click.UsageError("Give either DIR or --shipped.")
    options = RunOptions(**running)  # type: ignore[arg-type]
    own = resources.as_file(resources.files("demiurge.apps.demiurge").joinpath("air"))
    with own as app, opened(options, manifest=folder or app if options.tools else None) as (world, portal):
        portal.run(world.set_manifest(folder or app))
        found, ref = world.manifest(), portal.run(world.info())["manifest"]
        doubtful = world.replay_risks()
    keep(options)
    _tell(f"The manifest {ref} is in force", ref, (*found["definitions"], *found["system"]), doubtful)


@command.command(name="diff", cls=Command)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def diff(folder: Path) -> None:
    """Print what the manifest in DIR has beside the shipped app, as an extension of the app: a list for a file *.json
    of a folder of its own. A note tells each difference that the extension does not express."""
    whole = read_folder(folder)
    if any("extends" in part.content for part in whole.fragments):
        raise InvalidValue(f"{folder} is an extension already.", code="bad_manifest")
    if found := problems(whole):
        raise BadManifest(found)
    parts, notes = difference(whole, "demiurge", BASES["demiurge"]())
    for note in notes:
        output.notice(note)
    output.document(parts)


@command.command(name="log", cls=Command)
def log() -> None:
    """List every change of the manifest in force, oldest first: when, who, how (opened with, manifest set, policy set,
    tools refreshed), which parts changed, and the manifest."""
    with opened() as (world, portal):
        entries = portal.run(asyncio.to_thread(world.manifest_log))
    lines = [_entry_line(entry) for entry in entries]
    output.result(entries, *lines or ["Nothing has happened in this world yet, so no manifest was put in force."])


def _entry_line(entry: Mapping[str, Any]) -> str:
    when = datetime.fromtimestamp(entry["at_ns"] / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    parts = entry["changed"]
    what = f" ({', '.join(parts) or 'nothing changed'})" if parts is not None else ""
    return f"{when}  {entry['caller']['actor']}: {entry['how']}{what}  {entry['manifest']}"


@command.command(name="adopt", cls=Command)
@click.option("--yes", is_flag=True, help="Adopt it without a question.")
def adopt(yes: bool) -> None:
    """Adopt the manifest that this world brought, unchanged. First prints what it gives: grants, triggers, secrets and
    their places, tools.

    A manifest that was not set on this machine, by this user and for a world in this folder, has no force until it is
    adopted.
    """
    settings().folder()  # refuses the address of a server
    if settings().json and not yes:
        raise click.UsageError("With --json nobody is asked: say --yes.")
    with opened() as (world, portal):
        info = portal.run(world.info())
        ref = info["own_manifest"]
        document = {"ok": True, "ref": ref, **_given_by(world.manifest())}
        if info["adopted"]:
            output.result(document, "The manifest of this world counts here already.")
            return
        if not settings().json:
            output.write("\n".join(_words(document)))
        if not yes and not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask on: say --yes.")
        if not yes and not click.confirm("Take it?"):
            raise Conflict("It was not taken, and counts for nothing here.", code="not_adopted")
        portal.run(world.backend.keep.adopt(ref))
    output.result(document, "The manifest of this world counts here from now on.")


def _given_by(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a world's own definitions give it, from the node of its manifest: of an extension what it adds to
    the app that it extends."""
    own = manifest.get("extension") or manifest
    root = own["root"]
    policy = root.get("tool_policy")
    document = {
        "grants": root.get("defaults", {}).get("cap_grants", []),
        "triggers": root.get("triggers", []),
        "secrets": [definition for definition in own["definitions"] if definition["$kind"] == "defsecret"],
        "tool_policy": policy,
    }
    if "extends" not in root:
        return document
    theirs = {part.content["name"] for part in BASES["demiurge"]().definitions}
    named = [definition["name"] for definition in own["definitions"]]
    rules = [rule for each in own["definitions"] if each["$kind"] == "defpolicy" for rule in each["rules"]]
    return {**document, "extends": root["extends"], "without": root.get("without", {})} | {
        "definitions": [name for name in named if name not in theirs],
        "replaced": [name for name in named if name in theirs],
        "rules": rules,
    }


def _words(contents: Mapping[str, Any]) -> list[str]:
    """Returns every name and value as JSON: a stranger wrote them, and the user decides on them."""
    parts = ("grants", "triggers", "secrets")
    lines = [f"{part[:-1]}: {output.as_json(one)}" for part in parts for one in contents[part]]
    if "extends" in contents:
        lines.insert(0, f"It extends the app {output.as_json(contents['extends'])}, and gives beside it:")
        lines += [f"definition: {output.as_json(name)}" for name in contents["definitions"]]
        lines += [f"in place of the app's: {output.as_json(name)}" for name in contents["replaced"]]
        lines += [f"rule before those of the app: {output.as_json(rule)}" for rule in contents["rules"]]
        lines += [f"without: {output.as_json(contents['without'])}"] if contents["without"] else []
    lines += [f"tool policy rule: {output.as_json(rule)}" for rule in (contents["tool_policy"] or {}).get("rules", ())]
    counts = [f"{len(contents[part])} {part if len(contents[part]) != 1 else part[:-1]}" for part in parts]
    return [*lines, f"It gives {', '.join(counts)}; {_tools(contents['tool_policy'])}."]


def _tools(policy: Mapping[str, Any] | None) -> str:
    if policy is None:
        return "about tools it says nothing"
    asked = "require_approval_for_tools", "require_approval_for_effects"
    allowed, names, effects = (len(policy.get(field, ())) for field in ("allowed_tools", *asked))
    rules = f"; {count} rules say more of some callers" if (count := len(policy.get("rules", ()))) else ""
    return f"it allows {allowed} tools, and asks a person for {names} of them and {effects} kinds of effects{rules}"


def _check_folder(path: Path) -> None:
    folder = extended(read_folder(path), BASES)
    found = folder_problems(folder)
    if found:
        shown = {"ok": False, "problems": [problem._asdict() for problem in found]}
        raise OutcomeError(BadManifest.code, str(BadManifest(found)), shown)
    shipped = frozenset(part.content["name"] for part in BASES["demiurge"]().definitions)
    for unproven in unproven_triggers(folder, shipped):
        output.notice(str(unproven))
    definitions = folder.contents()
    ref = cbor.node_ref([definitions, folder.root()])
    what = f", and extends the app {folder.base.name}" if folder.base is not None else ""
    _tell(f"{path} is sound{what}", ref, (*definitions, *system_definitions()))


def _tell(
    sentence: str, ref: str, definitions: Iterable[Mapping[str, Any]], doubtful: Sequence[Mapping[str, Any]] = ()
) -> None:
    kinds = [definition["$kind"] for definition in definitions]
    counts = {kind: kinds.count(f"def{kind}") for kind in KINDS}
    summary = ", ".join(_counted(kind, count) for kind, count in counts.items() if count)
    for doubt in doubtful:
        output.notice(f"{doubt['module']}, line {doubt['line']}: {doubt['name']} {doubt['why']}.")
    output.result({"ok": True, "ref": ref, **counts, "warnings": list(doubtful)}, f"{sentence}: {summary}.")


def _counted(kind: str, count: int) -> str:
    if count == 1:
        return f"1 {kind}"
    return f"{count} {kind.removesuffix('y') + 'ies' if kind.endswith('y') else kind + 's'}"
