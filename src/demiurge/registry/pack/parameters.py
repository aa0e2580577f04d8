"""The descriptions of parameters that several core tools take."""

from __future__ import annotations

from typing import Final

__all__ = ["DRY_RUN", "WORKSPACE"]

DRY_RUN: Final = {"description": "True: show the arguments and read nothing."}
WORKSPACE: Final = {"description": "Workspace name. Leave out for main."}
