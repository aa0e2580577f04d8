"""Opening the world that a command works on, with the tools and the policy that its options name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.remembered import Remembered, recall, remember
from demiurge.cli import logs, output
from demiurge.cli.argument import read_text
from demiurge.cli.code import Code, load_code
from demiurge.cli.portal import Portal
from demiurge.cli.settings import settings
from demiurge.errors import Conflict, DemiurgeError
from demiurge.tools.policy import ToolPolicy

__all__ = ["Opened", "Running", "keep", "keep_first", "opened", "running_options"]

F = TypeVar("F", bound=Callable[..., Any])


class Opened(NamedTuple):
    """A world, and the loop it lives in."""

    world: World
    portal: Portal


@dataclass(frozen=True, slots=True)
class Running:
    """What a process needs to run a world's effects. `tools`: dotted module names; `policy`: a file."""

    tools: tuple[str, ...] = ()
    policy: str | None = None
    base_url: str | None = None
    system: str | None = None
    provider: str | None = None
    model: str | None = None


def running_options(command: F) -> F:
    """The options of `Running` that any command which runs effects takes."""
    for option in (
        click.option("--base-url", metavar="URL", help="Where the provider is, in place of its own address."),
        click.option("--policy", metavar="FILE", help="The tool policy: a TOML, YAML or JSON file."),
        click.option("--tools", metavar="PKG.MOD", multiple=True, help="A Python module whose tools to offer as well."),
    ):
        command = option(command)
    return command


@contextmanager
def opened(
    running: Running | None = None, *, create: bool = False, perform: bool = True, manifest: Path | None = None
) -> Iterator[Opened]:
    """The world that the global options name, closed at the end. Raises as `World.open`.

    What is not said is taken from what is remembered of this world. Commands that only look (no `running`) go on
    without it when it can't be had, and join whoever has the world open, whatever that one's tools are.
    """
    wanted = running or Running()
    chosen = settings()
    logs.configure(chosen)
    system = read_text(wanted.system) if wanted.system is not None else None
    means = _means(wanted, chosen.folder(), looking=running is None)

    def begin(means: _Means) -> World:
        return World.open(
            chosen.folder(),
            means.code.tools,
            means.policy,
            system,
            provider=wanted.provider,
            model=wanted.model,
            base_url=wanted.base_url,
            create=create,
            perform=perform,
            manifest=manifest,
            reducers=means.code.reducers,
            adapters=means.code.adapters,
        )

    with Portal() as portal:
        try:
            world = begin(means)
        except Conflict as conflict:
            if conflict.code != "owned" or not means.remembered or manifest is not None:
                raise
            world = begin(_Means())
        try:
            portal.run(world.__aenter__())
            yield Opened(world, portal)
            for text in portal.run(world.info())["notices"]:
                output.notice(text)
        finally:
            portal.run(world.close())


class _Means(NamedTuple):
    """`remembered`: none of it was said on this command line."""

    code: Code = Code()
    policy: ToolPolicy | None = None
    remembered: bool = False


def _means(wanted: Running, folder: Path, *, looking: bool) -> _Means:
    said = bool(wanted.tools or wanted.policy)
    try:
        kept = recall(os.environ, folder) or Remembered("")
        code = load_code(wanted.tools) if wanted.tools else load_code(kept.tools, Path(kept.folder))
        file = wanted.policy or kept.policy
        return _Means(code, ToolPolicy.load(file) if file is not None else None, not said)
    except DemiurgeError as error:
        if said or not looking:
            raise
        output.notice(f"{error} That is what `demiurge init --tools` or `--policy` remembered; --forget forgets it.")
        return _Means()


def keep(running: Running) -> None:
    """Remember the tools and the policy that were said for this world; what was not said stays as it was."""
    folder = settings().folder()
    if not (running.tools or running.policy):
        return
    kept = recall(os.environ, folder) or Remembered(str(Path.cwd()))
    tools, place = (running.tools, str(Path.cwd())) if running.tools else (kept.tools, kept.folder)
    policy = str(Path(running.policy).absolute()) if running.policy else kept.policy
    given = Remembered(place, tools, policy)
    if remember(os.environ, folder, given):
        output.notice(f"Remembered for this world: {_words(given)}.")


def keep_first(running: Running) -> None:
    """The same, but only when nothing is remembered of this world; else say what is, where that is used."""
    kept = recall(os.environ, settings().folder())
    if kept is None:
        keep(running)
    elif not (running.tools and running.policy):
        output.notice(f"As remembered for this world: {_words(kept)}.")


def _words(kept: Remembered) -> str:
    return " ".join(
        [*(f"--tools {name}" for name in kept.tools), *([f"--policy {kept.policy}"] if kept.policy else [])]
    )
