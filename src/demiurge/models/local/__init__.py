"""The local model: real weights, an engine in a process of its own, our own chat template.

For a machine without a key: `fetch` brings the weights, `LocalEngine` serves them on loopback, and the
provider "local" talks to it like to any other. Imports from `demiurge.values`, `tools` and `wire` (for the
fallback); the native engine is imported in that process alone.
"""

from demiurge.models.local.engine import LocalEngine
from demiurge.models.local.fetch import Progress, fetch
from demiurge.models.local.weights import LOCAL_MODEL, Weights, cache_folder, locate, remove, verify

__all__ = [
    "LOCAL_MODEL",
    "LocalEngine",
    "Progress",
    "Weights",
    "cache_folder",
    "fetch",
    "locate",
    "remove",
    "verify",
]
