"""Calling language models: one port, one client for every provider, what answers cost, the local model, and a scripted
one for tests.

May import `demiurge.errors`, `values`, `tools` (specs and events) and `wire` (formats), and httpx; nothing
above knows HTTP to a provider. Everything here is called with plain data and injected clock, sleep and
entropy.
"""

from demiurge.models.address import Address, address_of, find_key
from demiurge.models.client import ModelClient
from demiurge.models.local import LocalEngine
from demiurge.models.port import LanguageModel, OnEvent
from demiurge.models.prices import Cost, cost_of
from demiurge.models.providers import PROVIDERS, Provider, provider
from demiurge.models.request import GenerateRequest
from demiurge.models.scripted import ScriptedModel

__all__ = [
    "PROVIDERS",
    "Address",
    "Cost",
    "GenerateRequest",
    "LanguageModel",
    "LocalEngine",
    "ModelClient",
    "OnEvent",
    "Provider",
    "ScriptedModel",
    "address_of",
    "cost_of",
    "find_key",
    "provider",
]
