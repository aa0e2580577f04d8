"""A server with a certificate: it speaks TLS, and its cookie is for TLS alone."""

from __future__ import annotations

import ssl
from pathlib import Path

import httpx
import pytest
from tests.cli.certificate_authority import Authority
from tests.provider import Provider
from tests.server.conftest import LONGEST_S, serving_world


async def test_a_server_with_a_certificate_speaks_tls(tmp_path: Path, provider: Provider) -> None:
    authority = Authority(tmp_path)
    trusting = ssl.create_default_context(cafile=str(authority.path))
    own = authority.certificate("127.0.0.1")
    async with serving_world(tmp_path / "w", provider, certificate=own) as served:
        assert served.base.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(base_url=served.base, verify=trusting, timeout=LONGEST_S) as browser:
            assert (await browser.get("/api/health")).json()["status"] == "ok"
            link = served.server.new_login_link()
            assert link.startswith(f"{served.base}/login?code=")
            led = await browser.get(link)
            assert (led.status_code, led.headers["location"]) == (303, "/")
            assert "; Secure" in led.headers["set-cookie"]
            csrf = (await browser.get("/api/session")).json()["csrf"]
            headers = {"x-demiurge-csrf": csrf, "origin": served.base}
            assert (await browser.post("/api/chats", json={}, headers=headers)).status_code == 201
            headers["origin"] = served.base.replace("https", "http")
            assert (await browser.post("/api/chats", json={}, headers=headers)).status_code == 403
        async with httpx.AsyncClient(base_url=served.base) as stranger:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.get("/api/health")
