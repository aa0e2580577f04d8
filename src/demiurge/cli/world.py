"""Opening the world that a command works on, with the tools and the policy that its options name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from demiurge.bootstrap import World
from demiurge.cli import logs, output
from demiurge.cli.argument import read_text
from demiurge.cli.portal import Portal
from demiurge.cli.settings import settings
from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.policy import ToolPolicy

__all__ = ["Opened", "Running", "load_tools", "opened", "running_options"]

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
def opened(running: Running | None = None, *, create: bool = False, perform: bool = True) -> Iterator[Opened]:
    """The world that the global options name, closed at the end. Raises as `World.open`."""
    wanted = running or Running()
    chosen = settings()
    logs.configure(chosen)
    tools = load_tools(wanted.tools)
    policy = ToolPolicy.load(wanted.policy) if wanted.policy is not None else None
    system = read_text(wanted.system) if wanted.system is not None else None
    with Portal() as portal:
        world = World.open(
            chosen.folder(),
            tools,
            policy,
            system,
            provider=wanted.provider,
            model=wanted.model,
            base_url=wanted.base_url,
            create=create,
            perform=perform,
        )
        try:
            portal.run(world.__aenter__())
            yield Opened(world, portal)
            for text in portal.run(world.info())["notices"]:
                output.notice(text)
        finally:
            portal.run(world.close())


def load_tools(modules: Sequence[str]) -> list[Tool[Any, Any]]:
    """Every tool in the modules: those in `TOOLS` where a module has one, else every `Tool` at its top.

    The current folder is searched too. Raises NotFound, InvalidValue.
    """
    here = str(Path.cwd())
    if modules and here not in sys.path:
        sys.path.insert(0, here)
    return [tool for name in modules for tool in _tools_of(name)]


def _tools_of(name: str) -> list[Tool[Any, Any]]:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(f"There is no Python module {name} here; --tools takes a name such as my_tools.") from None
        raise InvalidValue(
            f"The module {name} needs {error.name}, which is not installed.", code="bad_tools"
        ) from error
    except DemiurgeError as error:
        raise InvalidValue(f"The module {name} can't be used: {error}", code="bad_tools") from error
    except Exception as error:
        raise InvalidValue(
            f"The module {name} can't be imported ({type(error).__name__}: {error}); mend it and try again.",
            code="bad_tools",
        ) from error
    listed = getattr(module, "TOOLS", None)
    found = list(listed) if listed is not None else list(vars(module).values())
    tools = [value for value in found if isinstance(value, Tool)]
    unique = list({id(tool): tool for tool in tools}.values())
    if not unique:
        raise InvalidValue(f"The module {name} holds no tool; make one with demiurge.tool.", code="bad_tools")
    return unique
