"""The tool of the page on allowed hosts, with a server that answers it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_allowed_hosts import trust_this_machine
from tests.world.effects.certificates import certificate
from tests.world.effects.servers import http_response, serving_site

from demiurge import World

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


async def test_the_tool_fetches_from_an_allowed_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example: Any = import_module("allowed_hosts")
    server, client = certificate(example.RATES, tmp_path)
    trust_this_machine(monkeypatch, client, {example.RATES: "127.0.0.1"})
    async with serving_site({"/euro/USD": http_response(200, b"1.10")}, tls=server) as site:
        monkeypatch.setattr(example, "RATES", f"{example.RATES}:{site.port}")
        given: Any = {"http": [example.RATES], "environment": {"HOME": str(tmp_path)}}
        async with World.open(tmp_path / "w", [example.exchange_rate], **given) as world:
            outcome = await world.call("exchange_rate", '{"currency": "USD"}')
            assert (outcome.status, outcome.error_code) == ("done", None)
            assert "1.10" in outcome.content
            missing = await world.call("exchange_rate", '{"currency": "XXX"}')
            assert "answers with status 404" in missing.content
        assert [seen.target for seen in site.asked] == ["/euro/USD", "/euro/XXX"]
