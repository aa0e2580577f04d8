"""Opens the world that a command works on, with the tools and the policy from its options."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.backend.ownership import is_open, last_change
from demiurge.bootstrap.manifest_settings import Evidence, Titles
from demiurge.bootstrap.trust.world_profile import MOVED, NotRecalled, WorldProfile, recall, remember, remembered_words
from demiurge.capabilities.http.hosts import checked_hosts
from demiurge.cli import logs, output
from demiurge.cli.code import Code, folders_of, load_code
from demiurge.cli.portal import Portal
from demiurge.cli.settings import settings
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.tools.policy import ToolPolicy

__all__ = [
    "ALLOW_HOST",
    "Opened",
    "RunOptions",
    "keep",
    "keep_first",
    "opened",
    "policy_name",
    "recalled",
    "running_options",
    "visits",
    "while_it_lasts",
]

LOOK_AGAIN_S = 0.2

REMEMBERED = frozenset(("tools", "hosts", "policy"))
"""The fields of a profile that options of the command line set."""

ALLOW_HOST = "A host that tools may ask by HTTPS, such as api.example.com; may be repeated."

F = TypeVar("F", bound=Callable[..., Any])


class Opened(NamedTuple):
    """An open world, and the loop that it runs in."""

    world: World
    portal: Portal


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options for running a world's effects. `tools`: dotted module names; `allow_host`: hosts that tools may ask;
    `policy`: a file; `system`: the text of the system prompt; `evidence`, `titles`: settings. `put_chat_settings` puts
    these three in force."""

    tools: tuple[str, ...] = ()
    allow_host: tuple[str, ...] = ()
    policy: str | None = None
    base_url: str | None = None
    system: str | None = None
    evidence: Evidence | None = None
    titles: Titles | None = None
    provider: str | None = None
    model: str | None = None


def running_options(command: F) -> F:
    """Adds the options of `RunOptions` to a command that runs effects."""
    for option in (
        click.option("--allow-host", metavar="HOST", multiple=True, help=ALLOW_HOST),
        click.option("--base-url", metavar="URL", help="The provider's address, in place of its own."),
        click.option("--policy", metavar="FILE", help="The tool policy: a TOML, YAML or JSON file."),
        click.option(
            "--tools", metavar="PKG.MOD", multiple=True, help="A Python module with more tools; may be repeated."
        ),
    ):
        command = option(command)
    return command


@contextmanager
def opened(
    running: RunOptions | None = None,
    *,
    create: bool = False,
    perform: bool = True,
    read_only: bool = False,
    manifest: Path | None = None,
    accept_losses: str | None = None,
    page_url: str | None = None,
    serves: bool = False,
) -> Iterator[Opened]:
    """Opens the world that the global options name, and closes it at the end. Raises as `World.open`.

    Options that are not given are taken from the remembered ones of this world. Read-only commands (no `running`) go on
    without the remembered options if these cannot be loaded, and join the process that has the world open, whatever its
    tools are. `read_only` (see `World.open`) needs none of the options. `page_url`: see `World.open`. A command
    that `serves` the world takes it over from one that does not.
    """
    requested = running or RunOptions()
    chosen = settings()
    logs.configure(chosen)
    if chosen.url() is not None:
        _require_no_options(requested, manifest, accept_losses)
        with Portal() as portal:
            yield from _connected(portal)
        return
    if chosen.folder().is_file():
        raise InvalidValue(f"{chosen.folder()} is a file: name the folder of a world with -w.", code="bad_world")
    loaded = (
        _LoadedOptions()
        if read_only
        else _load_options(requested, looking=running is None or accept_losses is not None)
    )

    def begin(loaded: _LoadedOptions) -> World:
        return World.open(
            chosen.folder(),
            loaded.code.tools,
            loaded.policy,
            loaded.system,
            evidence=loaded.evidence,
            titles=loaded.titles,
            provider=requested.provider,
            model=requested.model,
            base_url=requested.base_url,
            create=create,
            perform=perform,
            read_only=read_only,
            manifest=manifest,
            reducers=loaded.code.reducers,
            adapters=loaded.code.adapters,
            log_tool_errors=logs.tool_errors(chosen),
            accept_losses=accept_losses,
            tell=output.notice,
            page_url=page_url,
            ownership="take" if serves else "yield",
            http=loaded.hosts or None,
        )

    with Portal() as portal:
        without = _LoadedOptions() if loaded.remembered else loaded._replace(system=None, evidence=None, titles=None)
        may_forget = without != loaded and manifest is None
        try:
            world = begin(loaded)
        except Conflict as conflict:
            if conflict.code != "owned" or not may_forget:
                raise
            world, may_forget = begin(without), False
        try:
            try:
                portal.run(world.__aenter__())
            except Conflict as conflict:  # a server goes on until here
                if conflict.code != "owned" or not may_forget:
                    raise
                world = begin(without)
                portal.run(world.__aenter__())
            yield Opened(portal.run(_as_caller(world, chosen.caller_token())), portal)
            for text in portal.run(world.backend.read.info())["notices"]:
                output.notice(text)
        finally:
            portal.run(world.close())


def _require_no_options(requested: RunOptions, manifest: Path | None, accept_losses: str | None) -> None:
    """Raises click.UsageError for options that say how a world is opened: a server has opened its world already."""
    if requested != RunOptions() or manifest is not None:
        raise click.UsageError(
            "Tools, hosts, policy, model, provider, address, chat settings and manifest are chosen where the world is "
            "opened: give these options to `demiurge serve`."
        )
    if accept_losses is not None:
        settings().folder()


def _connected(portal: Portal) -> Iterator[Opened]:
    """Yields the world of the server that the global options name. Raises as `World.connect`."""
    chosen = settings()
    world = World.connect(chosen.url() or "", chosen.caller_token() or "")
    try:
        portal.run(world.__aenter__())
        yield Opened(world, portal)
    finally:
        portal.run(world.close())


async def _as_caller(world: World, secret: str | None) -> World:
    """Returns the world for the caller of a token, for the local user if there is none. Raises UsageError
    (`unauthorized`)."""
    if secret is None:
        return world
    token = await world.tokens.find(secret)
    if token is None:
        raise UsageError("The token is not valid in this world; `demiurge tokens ls` lists them.", code="unauthorized")
    return world.acting_as(token.caller)


def visits() -> Iterator[Opened]:
    """Yields the world, opened for reading, at once and again whenever another process opens it or has left it changed.
    `while_it_lasts` ends the block when the owner that was joined exits. A world behind a server is yielded once."""
    if settings().url() is not None:
        with opened(read_only=True) as found:
            yield found
        return
    folder = settings().folder()
    while True:
        alone, before = False, last_change(folder)  # later changes may not have been seen
        with while_it_lasts(), opened(read_only=True) as found:
            yield found
            alone = not found.world.joined
        while alone and last_change(folder) == before and not is_open(folder):  # it may have missed the end
            time.sleep(LOOK_AGAIN_S)


@contextmanager
def while_it_lasts() -> Iterator[None]:
    """Ends the block quietly when the owner of the world exits."""
    try:
        yield
    except Unavailable as gone:
        if gone.code != "owner_gone":
            raise


class _LoadedOptions(NamedTuple):
    """`remembered`: no option was given on this command line. `system`, `evidence` and `titles` are those that are
    remembered."""

    code: Code = Code()
    policy: ToolPolicy | None = None
    hosts: tuple[str, ...] = ()
    remembered: bool = False
    system: str | None = None
    evidence: Evidence | None = None
    titles: Titles | None = None


def recalled(requested: RunOptions) -> WorldProfile:
    """Returns what is remembered of the world that the global options name; nothing for a copied world if a policy is
    given, and of one behind a server. Raises as `recall`."""
    if settings().url() is not None:
        return WorldProfile()
    try:
        return recall(os.environ, settings().folder()) or WorldProfile()
    except NotRecalled as error:
        if error.code != MOVED or requested.policy is None:
            raise
        return WorldProfile()


def _load_options(requested: RunOptions, *, looking: bool) -> _LoadedOptions:
    said = bool(requested.tools or requested.allow_host or requested.policy)
    try:
        profile = recalled(requested)
        code = load_code(requested.tools) if requested.tools else _remembered_code(profile)
        policy = ToolPolicy.load(requested.policy) if requested.policy is not None else _remembered_policy(profile)
        hosts = checked_hosts(requested.allow_host or profile.hosts)
        return _LoadedOptions(code, policy, hosts, not said, profile.system, profile.evidence, profile.titles)
    except DemiurgeError as error:
        if said or not looking:
            raise
        is_said = error.code == MOVED or isinstance(error, RememberedUnusable)
        about = "" if is_said else " `demiurge init --forget` forgets what is remembered."
        _notice_once(f"{error}{about} This command goes on without it.")
        return _LoadedOptions()


class RememberedUnusable(Unavailable):
    """A module or a policy that is remembered for this world can't be loaded. `code`: that of the cause."""


def _remembered_code(profile: WorldProfile) -> Code:
    by, other = "`demiurge init` or `demiurge chat`", "`demiurge init --tools MODULE` remembers another module"
    with _remembered(profile, "tools", by, other):
        return load_code(profile.tools, [Path(folder) for folder in profile.folders])


def _remembered_policy(profile: WorldProfile) -> ToolPolicy | None:
    by = "`demiurge init`, `demiurge chat` or `demiurge policy set`"
    with _remembered(profile, "policy", by, "`demiurge init --policy FILE` remembers another file"):
        return ToolPolicy.load(profile.policy) if profile.policy is not None else None


@contextmanager
def _remembered(profile: WorldProfile, name: str, by: str, other: str) -> Iterator[None]:
    """Raises RememberedUnusable, which names the ways out, if the block can't load the remembered option."""
    try:
        yield
    except DemiurgeError as error:
        words, others = _words_of(profile, {name}), _words_of(profile, REMEMBERED - {name})
        forgets = f"forgets it{f' and {others}' if others else ''}"
        way = f"Bring it back; or {other}" if isinstance(error, NotFound) else f"Also, {other}"
        raise RememberedUnusable(
            f"{error} This world remembers {words}, which an earlier {by} named. {way}, and "
            f"`demiurge init --forget` {forgets}.",
            code=error.code,
        ) from error


def _words_of(profile: WorldProfile, names: Collection[str]) -> str:
    """Returns the options of the command line for these fields of a profile."""
    return remembered_words(
        WorldProfile(
            tools=profile.tools if "tools" in names else (),
            hosts=profile.hosts if "hosts" in names else (),
            policy=profile.policy if "policy" in names else None,
        )
    )


def _notice_once(text: str) -> None:
    """Prints a sentence to stderr, once in a command that opens its world several times."""
    said = click.get_current_context().find_root().meta.setdefault(__name__, set())
    if text not in said:
        said.add(text)
        output.notice(text)


def keep(running: RunOptions) -> None:
    """Remembers the given tools, hosts and policy for this world; what is not given stays as it was. Nothing is
    remembered of a world behind a server."""
    if settings().url() is not None or not (running.tools or running.allow_host or running.policy):
        return
    folder = settings().folder()
    said: dict[str, Any] = {}
    if running.tools:
        said = {"tools": running.tools, "folders": tuple(map(str, folders_of(running.tools)))}
    said |= {"hosts": checked_hosts(running.allow_host)} if running.allow_host else {}
    said |= {"policy": str(Path(running.policy).absolute())} if running.policy else {}
    saved = remember(os.environ, folder, lambda profile: replace(profile, **said))
    if saved is not None:
        output.notice(f"Remembered for this world: {_words_of(saved, REMEMBERED)}.")


def keep_first(running: RunOptions) -> None:
    """Remembers the given tools, hosts and policy only if nothing is remembered of this world. Else prints what is used
    as remembered, and which options count for this command alone."""
    profile = recalled(running)
    if not _words_of(profile, REMEMBERED):
        keep(running)
        return
    given = WorldProfile(tools=running.tools, hosts=running.allow_host, policy=running.policy)
    named = {name for name in REMEMBERED if getattr(given, name)}
    if words := _words_of(profile, REMEMBERED - named):
        output.notice(f"As remembered for this world: {words}.")
    other = {name for name in named if not _is_remembered(name, running, profile)}
    if words := _words_of(given, other):
        before = _words_of(profile, other)
        instead = f", in place of {before}" if before else ""
        output.notice(f"For this command alone: {words}. `demiurge init {words}` remembers it{instead}.")


def _is_remembered(name: str, running: RunOptions, profile: WorldProfile) -> bool:
    """Returns whether the given option `name` says what is remembered."""
    if name == "tools":
        folders = tuple(map(str, folders_of(running.tools)))
        return (running.tools, folders) == (profile.tools, profile.folders)
    if name == "hosts":
        return checked_hosts(running.allow_host) == profile.hosts
    return running.policy is not None and str(Path(running.policy).absolute()) == profile.policy


def policy_name(world: World, options: RunOptions) -> str:
    """Returns whose tool policy is in force, in words."""
    if settings().url() is not None:
        return "the server's policy"
    file = options.policy or recalled(options).policy
    if file is not None:
        return f"the policy file {file}"
    return (
        "the policy of this world's manifest" if world.manifest()["root"].get("tool_policy") else "the default policy"
    )
