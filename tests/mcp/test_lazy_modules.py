"""The modules that talk with servers are imported when the first server is used."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from demiurge.mcp import clients

WAITS = """
import time
from pathlib import Path

while not Path({gate!r}).exists():
    time.sleep(0.005)
READY = True
"""


def test_a_source_of_servers_imports_the_sdk_only_when_a_server_is_used() -> None:
    code = "import sys, demiurge.mcp.provider; print([m for m in ('mcp', 'mcp_types', 'httpx2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_a_server_that_is_used_while_another_imports_the_sdk_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "imported_slowly.py").write_text(WAITS.format(gate=str(gate)), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = asyncio.create_task(clients._loaded("imported_slowly"))
    while "imported_slowly" not in sys.modules:
        await asyncio.sleep(0)
    second = asyncio.create_task(clients._loaded("imported_slowly"))
    await asyncio.sleep(0)
    gate.touch()
    assert [module.READY for module in await asyncio.gather(first, second)] == [True, True]
    del sys.modules["imported_slowly"], clients._LOADED["imported_slowly"]
