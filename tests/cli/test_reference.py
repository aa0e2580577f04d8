"""The page about the command line is made from the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[2] / "docs" / "generate.py"


def test_the_page_is_current() -> None:
    done = subprocess.run([sys.executable, str(GENERATE), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
