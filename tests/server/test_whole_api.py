"""Every path of the API by its own description: generated requests, no failure of the server, answers as described."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.provider import serving
from tests.server.conftest import LONGEST_S, Served, serving_world

STREAMS = ("/api/journal/stream", "/api/ai/chat", "/api/calls/{name}")
"""Paths whose answers are no JSON: tests of their own read them. `/api/calls` takes CBOR."""

SETTINGS = settings(
    phases=[Phase.generate],
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

CHECKED = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a server in a thread, and a token of the user."""
    found: list[tuple[str, str]] = []
    ready, over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def live(folder: Path, provider: Any) -> None:
        loops.append(asyncio.get_running_loop())
        async with serving_world(folder, provider) as served:
            await fill(served)
            found.append((served.base, (await served.world.tokens.add("user", ["user"])).secret))
            ready.set()
            await over.wait()

    with serving() as provider:
        provider.say(provider.answer(provider.text("Hello.")))
        thread = threading.Thread(target=asyncio.run, args=(live(tmp_path_factory.mktemp("api"), provider),))
        thread.start()
        assert ready.wait(LONGEST_S)
        yield found[0]
        loops[0].call_soon_threadsafe(over.set)
        thread.join()


async def fill(served: Served) -> None:
    """Puts something of each kind into the world."""
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    await user.put("/api/workspace/main/file?path=a.txt", content=b"text")


@pytest.fixture(scope="module")
def api(base: tuple[str, str]) -> Any:
    url, token = base
    headers = {"authorization": f"Bearer {token}"}
    description = httpx.get(f"{url}/api/openapi.json", headers=headers, timeout=LONGEST_S).json()
    for path in STREAMS:
        del description["paths"][path]
    description["servers"] = [{"url": url}]
    return schemathesis.openapi.from_dict(description)


@pytest.mark.parametrize("examples", [8, pytest.param(150, marks=[pytest.mark.full, pytest.mark.timeout(3600)])])
def test_no_request_fails_the_server_and_answers_are_as_described(
    api: Any, base: tuple[str, str], examples: int
) -> None:
    failures: dict[str, str] = {}
    for found in api.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(SETTINGS, max_examples=examples)
        def holds(case: Any) -> None:
            answer = case.call(headers={"authorization": f"Bearer {base[1]}"}, timeout=LONGEST_S, base_url=base[0])
            case.validate_response(answer, checks=CHECKED)

        try:
            holds()
        except requests.Timeout as error:
            failures[operation.label] = f"{error} No further operation was asked."
            break  # a server that hangs would take as long with each, until the test's own limit names none of them
        except Exception as error:  # noqa: BLE001 - every operation is asked before the test fails
            failures[operation.label] = str(error)
    assert failures == {}


def test_every_path_says_what_it_needs_and_how_it_fails(base: tuple[str, str]) -> None:
    url, token = base
    assert httpx.get(f"{url}/api/openapi.json", timeout=LONGEST_S).status_code == 401
    headers = {"authorization": f"Bearer {token}"}
    description = httpx.get(f"{url}/api/openapi.json", headers=headers, timeout=LONGEST_S).json()
    schemes = description["components"]["securitySchemes"]
    assert {scheme["type"] for scheme in schemes.values()} == {"http", "apiKey"}
    assert description["security"] == [{"token": []}, {"cookie": []}]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if path in ("/api/health", "/api/login"):
                assert operation["security"] == []
                continue
            assert "401" in operation["responses"], (method, path)
            assert "security" not in operation, (method, path)
    assert json.dumps(description)
