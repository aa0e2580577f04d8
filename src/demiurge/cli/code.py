"""Loads the Python modules of `--tools`: tools, and the reducers and adapters of a user's own manifest."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from demiurge.bootstrap.world_tools import ToolOrSource, WorldTools, is_tool_or_source
from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.tools.authoring.tool import Tool, as_tool
from demiurge.tools.bound import BoundTool
from demiurge.tools.errors import PromptValidationError
from demiurge.tools.source import StaticToolSource
from demiurge.world.effect import Adapter
from demiurge.world.reducer import Reducer

__all__ = ["Code", "folders_of", "listed_tools", "load_code", "tool_names"]


@dataclass(frozen=True, slots=True)
class Code:
    """The contents of modules: `TOOLS` (tools, plain functions, BoundTools and sources), `REDUCERS` by module name,
    `ADAPTERS`. Without `TOOLS` every Tool at the top level of the module is one, and no plain function, because a
    module's helpers are functions too."""

    tools: Sequence[ToolOrSource] = ()
    reducers: Mapping[str, Reducer | Callable[..., Any]] = field(default_factory=dict)
    adapters: Sequence[Adapter] = ()


def load_code(modules: Sequence[str], folders: Sequence[Path] = ()) -> Code:
    """Imports the modules, which are searched first in `folders` (default: the current one). Raises NotFound,
    InvalidValue."""
    search_path = [str(folder) for folder in folders] or [str(Path.cwd())]
    if modules and sys.path[: len(search_path)] != search_path:
        sys.path[:0] = search_path
    where = f"in {', '.join(map(str, folders))}." if folders else "here; --tools takes a name such as my_tools."
    parts = [_code_of(name, where) for name in modules]
    reducers = {name: found for part in parts for name, found in part.reducers.items()}
    tools = [tool for part in parts for tool in part.tools]
    return Code(tools, reducers, [adapter for part in parts for adapter in part.adapters])


def folders_of(modules: Sequence[str]) -> tuple[Path, ...]:
    """Returns the folders from which these imported modules can be imported again; each once, in order."""
    found = [_folder_of(sys.modules[name.partition(".")[0]]) for name in modules]
    return tuple(dict.fromkeys(folder for folder in found if folder is not None))


def _folder_of(top: ModuleType) -> Path | None:
    """Returns None for a module without a folder, such as a built-in one."""
    if top.__file__ is not None:
        file = Path(top.__file__).absolute()
        return file.parents[1] if hasattr(top, "__path__") else file.parent
    return next((Path(place).absolute().parent for place in getattr(top, "__path__", ())), None)


def listed_tools(modules: Sequence[str]) -> StaticToolSource:
    """Returns the shipped tools and the modules' tools; lists the modules' sources for that. Raises as `load_code`, and
    Unavailable."""
    return asyncio.run(WorldTools(load_code(modules).tools).listed())


def tool_names(modules: Sequence[str]) -> frozenset[str]:
    """Returns the names of `listed_tools`."""
    return frozenset(spec.name for spec in listed_tools(modules).specs())


def _code_of(name: str, where: str) -> Code:
    module = _imported(name, where)
    listed = getattr(module, "TOOLS", None)
    if listed is not None and not isinstance(listed, Iterable):
        raise InvalidValue(f"TOOLS of the module {name} is no list of tools; write TOOLS = [...].", code="bad_tools")
    if listed is not None:
        found = [_listed_tool(name, entry) for entry in listed]
    else:
        found = [entry for entry in vars(module).values() if isinstance(entry, Tool | BoundTool)]
    tools = {id(entry): entry for entry in found}
    code = Code(list(tools.values()), _reducers(module), _adapters(module))
    if not (code.tools or code.reducers or code.adapters):
        raise InvalidValue(
            f"The module {name} holds no tool: put @tool before a function, or write TOOLS = [function].",
            code="bad_tools",
        )
    return code


def _listed_tool(name: str, entry: Any) -> ToolOrSource:
    """Returns an entry of `TOOLS`, a plain function as a tool. Raises InvalidValue."""
    try:
        return entry if is_tool_or_source(entry) else as_tool(entry)
    except PromptValidationError as error:
        raise InvalidValue(f"TOOLS of the module {name}: {error.message}", code="bad_tools") from error


def _reducers(module: ModuleType) -> Mapping[str, Any]:
    found = getattr(module, "REDUCERS", {})
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        why = f"REDUCERS of the module {module.__name__} maps no names of modules to functions"
        raise InvalidValue(f'{why}; write REDUCERS = {{"my/Module@1": reduce}}.', code="bad_tools")
    return found


def _adapters(module: ModuleType) -> Sequence[Any]:
    found = getattr(module, "ADAPTERS", ())
    if not isinstance(found, Sequence) or isinstance(found, str):
        why = f"ADAPTERS of the module {module.__name__} is no list of adapters"
        raise InvalidValue(f"{why}; write ADAPTERS = [...].", code="bad_tools")
    return found


def _imported(name: str, where: str) -> ModuleType:
    """Returns the module. `where`: the end of the sentence that there is none."""
    if name.endswith(".py"):  # the name of a file is also that of a module in a package
        folder, file = os.path.split(name[: -len(".py")])
        inside = f", in the folder {folder}" if folder not in ("", ".") else ""
        raise InvalidValue(f"{name} is the name of a file: name its module, which is {file}{inside}.", code="bad_tools")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(f"There is no Python module {name} {where}") from None
        raise InvalidValue(
            f"The module {name} needs {error.name}, which is not installed.", code="bad_tools"
        ) from error
    except DemiurgeError as error:
        raise InvalidValue(f"The module {name} can't be used: {error}", code="bad_tools") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise InvalidValue(
            f"The module {name} can't be imported ({_words(error)}): correct it and try again.",
            code="bad_tools",
        ) from error


def _words(error: BaseException) -> str:
    """Returns an error's text; formatting an error may fail as its module did."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a `__str__` of somebody's own
        return type(error).__name__
