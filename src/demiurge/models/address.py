"""The address of a provider, and the keys that may be sent to it.

Invariant: a vendor's key (OPENAI_API_KEY, ANTHROPIC_API_KEY) is sent only to that vendor, or to the address in the
vendor's own variable: never to an address that was given for this run, and never to another vendor's host. LLM_API_KEY
belongs to no vendor, so it is sent wherever its user sends requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from demiurge.models.providers import PROVIDERS, Provider

__all__ = ["GENERAL_KEY", "Address", "address_of", "find_key"]

GENERAL_KEY = "LLM_API_KEY"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a provider. `url` None is the provider's usual one. `is_vendors`: the vendor's own key may be sent
    there, and a key is required; any other address gets LLM_API_KEY or no key."""

    url: str | None = None
    is_vendors: bool = True


def address_of(row: Provider, environ: Mapping[str, str], run_url: str | None = None) -> Address:
    """Returns the address that is `given` for this run, else the one in the provider's own variable, else its usual
    one."""
    named = environ.get(row.base_url_variable, "").strip() if row.base_url_variable else ""
    url = run_url or named
    if not url:
        return Address()
    host = _https_host(url)
    others = {other.official_host for other in PROVIDERS.values()} - {None, row.official_host}
    is_official = host is not None and host == row.official_host
    return Address(url, is_official or (not run_url and _host(url) not in others))


def find_key(row: Provider, environ: Mapping[str, str], address: Address = Address()) -> str | None:
    """Returns the key in the environment for a provider at an address: LLM_API_KEY, else the vendor's own."""
    names = (GENERAL_KEY, row.key_variable if address.is_vendors else None) if row.key_variable else ()
    return next((key for name in names if name and (key := environ.get(name, "").strip())), None)


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _https_host(url: str) -> str | None:
    return _host(url) if url.lower().startswith("https://") else None
