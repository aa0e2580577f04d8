"""Calling language models: one client for every provider, what answers cost, and the local model.

May import `demiurge.errors`, `values`, `tools` (specs and events) and `wire` (formats), and httpx; nothing
above knows HTTP to a provider. Everything here is called with plain data and injected clock, sleep and
entropy.
"""

from demiurge.models.client import ModelClient
from demiurge.models.local import LocalEngine
from demiurge.models.prices import cost_micros
from demiurge.models.providers import PROVIDERS, Provider, find_key, provider
from demiurge.models.request import GenerateRequest

__all__ = [
    "PROVIDERS",
    "GenerateRequest",
    "LocalEngine",
    "ModelClient",
    "Provider",
    "cost_micros",
    "find_key",
    "provider",
]
