"""The local model: weights, an engine in a process of its own, and a chat template.

For a machine without a key: `fetch` downloads the weights, `LocalEngine` serves them on loopback, and the provider
"local" uses it like any other provider. Imports from `demiurge.values`, `tools` and `wire` (for the fallback); only the
engine's process imports the native engine.
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
