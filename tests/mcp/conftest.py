"""Clients and settings for the tests of MCP servers."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.mcp.pairs import pair

from demiurge.mcp import Limits, Listing, McpClients, ServerSettings

__all__ = ["pair"]

MALICIOUS = Path(__file__).with_name("malicious_server.py")
BIN = Path(sys.executable).parent
NPM = Path(__file__).with_name("npm")

Bad: TypeAlias = Callable[..., ServerSettings]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the commands of npm's packages, installed from the lock file."""
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(NPM / name, folder)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True)
    return folder / "node_modules" / ".bin"


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    """The file to which a malicious server adds a line whenever it acts."""
    return tmp_path / "acted"


@pytest.fixture
def bad(counter: Path) -> Bad:
    """Makes the settings of a malicious server: `bad(behaviour, **limits)`."""

    def settings(behaviour: str, **limits: Any) -> ServerSettings:
        command = (sys.executable, "-S", str(MALICIOUS), behaviour, str(counter))
        return ServerSettings("bad", command=command, limits=Limits(**limits))

    return settings


def acted(counter: Path) -> int:
    """How often a malicious server acted."""
    return counter.read_text().count("acted") if counter.exists() else 0


async def until(is_true: Callable[[], bool]) -> None:
    """Waits for a condition."""
    async with asyncio.timeout(30):
        while not is_true():
            await asyncio.sleep(0.01)


@pytest.fixture
async def told() -> list[Listing]:
    """The listings that the listener of `clients` was told of."""
    return []


@pytest.fixture
async def clients(told: list[Listing]) -> AsyncIterator[McpClients]:
    made = McpClients(on_listing=_keeper(told), start_s=20, stop_s=1)
    yield made
    await made.close()


def _keeper(told: list[Listing]) -> Any:
    async def keep(server: str, listing: Listing) -> None:
        told.append(listing)

    return keep
