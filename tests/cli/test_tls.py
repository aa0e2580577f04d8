"""`demiurge serve --tls-cert --tls-key`, and clients that trust the certificate or do not."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from tests.cli.certificate_authority import Authority
from tests.cli.conftest import Processes, Run
from tests.provider import Provider, responses, text

from demiurge import World
from demiurge.errors import Unavailable, UsageError


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "tls").mkdir()
    return Authority(tmp_path / "tls")


@pytest.fixture
def token(demiurge: Run) -> str:
    return str(demiurge("init", "--json").document["token"])


class Serving:
    """Servers that end with the test."""

    def __init__(self, process: Processes) -> None:
        self._process = process
        self.running: list[subprocess.Popen[str]] = []

    def __call__(self, cert: Path, key: Path) -> dict[str, str]:
        """Starts a server, and returns what it printed."""
        running = self._process.start("serve", "--port", "0", "--json", "--tls-cert", str(cert), "--tls-key", str(key))
        self.running.append(running)
        assert running.stdout is not None
        printed: dict[str, str] = json.loads(running.stdout.readline())
        return printed

    def end(self) -> None:
        for running in self.running:
            running.terminate()
            assert self._process.finish(running).status == 0


@pytest.fixture
def serving(process: Processes) -> Iterator[Serving]:
    made = Serving(process)
    yield made
    made.end()


def test_a_client_that_trusts_the_authority_talks_over_tls(
    demiurge: Run,
    token: str,
    serving: Serving,
    authority: Authority,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed = serving(*authority.certificate("127.0.0.1"))
    assert printed["url"].startswith("https://127.0.0.1:")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    provider.say(responses(text("Good day.")))
    said = demiurge("-w", printed["url"], "--token", token, "chat", "--message", "Hello")
    assert (said.status, "Good day." in said.out) == (0, True), said.err
    trusted = ssl.create_default_context(cafile=str(authority.path))
    with httpx.Client(verify=trusted, timeout=60) as browser:
        link = demiurge("tokens", "link", "--url", printed["url"]).out.strip()
        cookie = browser.get(link).headers["set-cookie"].lower()
        assert "; secure" in cookie
        assert browser.get(f"{printed['url']}/api/session").json()["actor"] == "user"


def test_a_certificate_that_is_not_trusted_is_said(
    demiurge: Run, token: str, serving: Serving, authority: Authority
) -> None:
    url = serving(*authority.certificate("127.0.0.1"))["url"]
    with pytest.raises(Unavailable) as refused:
        World.connect(url, token)
    assert refused.value.code == "untrusted_certificate"
    told = demiurge("-w", url, "--token", token, "chat", "ls", "--json")
    assert (told.status, told.document["error"]["code"]) == (1, "untrusted_certificate")
    assert "SSL_CERT_FILE" in told.document["error"]["message"]


@pytest.mark.parametrize("wrong", ["name", "time"])
def test_a_certificate_for_another_host_or_time_is_refused(
    token: str, serving: Serving, authority: Authority, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    past = datetime(2021, 1, 1, tzinfo=UTC)
    files = authority.certificate("other.example") if wrong == "name" else authority.certificate("127.0.0.1", past)
    url = serving(*files)["url"]
    with pytest.raises(Unavailable) as refused:
        World.connect(url, token)
    assert refused.value.code == "untrusted_certificate"
    assert {"name": "127.0.0.1", "time": "expired"}[wrong] in refused.value.message


def test_a_client_that_speaks_the_other_protocol_is_told_so(token: str, serving: Serving, authority: Authority) -> None:
    url = serving(*authority.certificate("127.0.0.1"))["url"].replace("https", "http")
    with pytest.raises(Unavailable, match="https"):
        World.connect(url, token)


@pytest.mark.parametrize("url", ["http://", "https://", "http://[::1", "http://127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        World.connect(url, "dmg_x")
    assert refused.value.code == "bad_address"


def test_a_certificate_that_cannot_be_used_is_refused(demiurge: Run, authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.certificate("127.0.0.1")
    _, other = authority.certificate("localhost")
    nothing = tmp_path / "nothing.pem"
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for files in ((nothing, key), (cert, nothing), (broken, key), (cert, other)):
        refused = demiurge("serve", "--port", "0", "--json", "--tls-cert", str(files[0]), "--tls-key", str(files[1]))
        assert (refused.status, refused.document["error"]["code"]) == (1, "bad_certificate"), files
    alone = demiurge("serve", "--port", "0", "--tls-cert", str(cert))
    assert (alone.status, "go together" in alone.err) == (2, True)
