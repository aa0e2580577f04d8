"""The environment variables of this process, for packages that must not access the machine themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["process_environment"]


def process_environment() -> Mapping[str, str]:
    """Returns the environment variables as a live view."""
    return os.environ
