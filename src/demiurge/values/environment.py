"""The environment of this process, for those packages that may not reach for the machine themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["process_environment"]


def process_environment() -> Mapping[str, str]:
    """Returns the environment variables, as they are whenever one is read."""
    return os.environ
