"""The tool of the page on keys, with a service that wants the key."""

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
HOST = "api.weather.example"
KEY = "wk-canary-0123456789abcdef"


async def test_the_service_gets_the_key_and_no_file_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example: Any = import_module("forecast")
    server, client = certificate(HOST, tmp_path)
    trust_this_machine(monkeypatch, client, {HOST: "127.0.0.1"})
    async with serving_site({"/tomorrow/Oslo": http_response(200, b"Rain.")}, tls=server) as site:
        monkeypatch.setattr(example, "SERVICE", f"https://{HOST}:{site.port}")
        folder = tmp_path / "weather"
        folder.mkdir()
        manifest = (EXAMPLES / "weather/manifest.json").read_text("utf-8")
        (folder / "manifest.json").write_text(manifest.replace("[443]", f"[{site.port}]"), "utf-8")
        environment = {"HOME": str(tmp_path), "WEATHER_KEY": KEY}
        async with World.open(tmp_path / "w", [example.forecast], manifest=folder, environment=environment) as world:
            outcome = await world.call("forecast", {"city": "Oslo"})
        assert "Rain." in outcome.content
        [seen] = site.asked
        assert seen.headers["x-api-key"] == KEY
    kept = [path.read_bytes() for path in (tmp_path / "w").rglob("*") if path.is_file()]
    assert kept
    assert not any(KEY.encode() in data for data in kept)
