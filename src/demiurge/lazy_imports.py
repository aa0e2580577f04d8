"""Lazy imports: names of a package that are imported on first use, so that importing the package stays quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_attributes"]


def lazy_attributes(package: str, homes: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of `package`, which is being imported. `homes` maps each module to the names it
    defines."""
    home = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
