"""The Python that `--tools` names: tools, and for a manifest of one's own its reducers and adapters."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.tools.authoring.tool import Tool
from demiurge.world.effect import Adapter
from demiurge.world.reducer import Reducer

__all__ = ["Code", "load_code", "load_tools"]


@dataclass(frozen=True, slots=True)
class Code:
    """What modules hold: `TOOLS` (else every `Tool` at the top), `REDUCERS` by module name, `ADAPTERS`."""

    tools: Sequence[Tool[Any, Any]] = ()
    reducers: Mapping[str, Reducer | Callable[..., Any]] = field(default_factory=dict)
    adapters: Sequence[Adapter] = ()


def load_code(modules: Sequence[str], folder: Path | None = None) -> Code:
    """Import the modules, which are looked for in `folder` (default: the current one) too. Raises NotFound,
    InvalidValue."""
    here = str(folder or Path.cwd())
    if modules and sys.path[:1] != [here]:
        sys.path.insert(0, here)
    parts = [_code_of(name) for name in modules]
    reducers = {name: found for part in parts for name, found in part.reducers.items()}
    tools = [tool for part in parts for tool in part.tools]
    return Code(tools, reducers, [adapter for part in parts for adapter in part.adapters])


def load_tools(modules: Sequence[str]) -> Sequence[Tool[Any, Any]]:
    """The tools of `load_code`."""
    return load_code(modules).tools


def _code_of(name: str) -> Code:
    module = _imported(name)
    listed = getattr(module, "TOOLS", None)
    found = list(listed) if listed is not None else list(vars(module).values())
    tools = {id(tool): tool for tool in found if isinstance(tool, Tool)}
    code = Code(list(tools.values()), getattr(module, "REDUCERS", {}), getattr(module, "ADAPTERS", ()))
    if not (code.tools or code.reducers or code.adapters):
        raise InvalidValue(f"The module {name} holds no tool; make one with demiurge.tool.", code="bad_tools")
    return code


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(f"There is no Python module {name} here; --tools takes a name such as my_tools.") from None
        raise InvalidValue(
            f"The module {name} needs {error.name}, which is not installed.", code="bad_tools"
        ) from error
    except DemiurgeError as error:
        raise InvalidValue(f"The module {name} can't be used: {error}", code="bad_tools") from error
    except (Exception, SystemExit) as error:
        raise InvalidValue(
            f"The module {name} can't be imported ({type(error).__name__}: {error}); mend it and try again.",
            code="bad_tools",
        ) from error
