"""Calls to language models: one port, one client for all providers, costs of answers, the local model, and a scripted
model for tests.

May import `demiurge.errors`, `values`, `tools` (specs and events) and `wire` (formats), and httpx; no package above
sends HTTP to a provider. Callers pass plain data and an injected clock, sleep and entropy.
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
