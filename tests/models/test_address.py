from __future__ import annotations

import pytest

from demiurge.models.address import Address, address_of, find_key
from demiurge.models.providers import PROVIDERS, provider

ENVIRONMENT = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-anthropic"}


def test_each_provider_has_its_own_variable_for_its_address() -> None:
    environ = {"OPENAI_BASE_URL": "http://a/v1", "ANTHROPIC_BASE_URL": " http://b "}
    assert address_of(provider("openai"), environ) == Address("http://a/v1", True)
    assert address_of(provider("openai-chat"), environ) == Address("http://a/v1", True)
    assert address_of(provider("anthropic"), environ) == Address("http://b", True)
    assert address_of(provider("local"), environ) == Address(None, True)
    for row in PROVIDERS.values():
        assert address_of(row, {}) == Address(None, True)


def test_a_given_address_comes_first_and_is_nobodys_in_particular() -> None:
    environ = {"OPENAI_BASE_URL": "http://a/v1"}
    given = address_of(provider("openai-chat"), environ, "http://localhost:11434/v1")
    assert given == Address("http://localhost:11434/v1", False)
    assert address_of(provider("openai"), {}, "https://api.openai.com/v1") == Address("https://api.openai.com/v1", True)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.openai.com/v1",
        "https://api.openai.com@evil.example/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evil.example/https://api.openai.com/v1",
        "https://[api.openai.com/v1",
        "api.openai.com",
        "nonsense",
    ],
)
def test_a_lookalike_of_the_vendors_address_is_not_the_vendors(url: str) -> None:
    assert not address_of(provider("openai"), {}, url).is_vendors


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_variable_makes_a_vendors_key_go_to_another_vendor(scheme: str) -> None:
    environ = {
        "OPENAI_BASE_URL": f"{scheme}://api.anthropic.com/v1",
        "ANTHROPIC_BASE_URL": f"{scheme}://API.openai.com",
    }
    for name in ("openai", "openai-chat", "anthropic"):
        row = provider(name)
        address = address_of(row, environ)
        assert not address.is_vendors
        assert find_key(row, ENVIRONMENT, address) is None
        assert find_key(row, {**ENVIRONMENT, "LLM_API_KEY": "mine"}, address) == "mine"


def test_the_general_key_comes_before_the_providers_own() -> None:
    row = provider("openai")
    assert find_key(row, {"LLM_API_KEY": "a", "OPENAI_API_KEY": "b"}) == "a"
    assert find_key(row, {"LLM_API_KEY": " ", "OPENAI_API_KEY": "b\n"}) == "b"
    assert find_key(row, {"ANTHROPIC_API_KEY": "c"}) is None
    assert find_key(provider("anthropic"), ENVIRONMENT) == "sk-anthropic"
    assert find_key(provider("local"), {"LLM_API_KEY": "a"}) is None
    assert find_key(row, ENVIRONMENT, Address("http://localhost:11434/v1", False)) is None
