"""The names of `demiurge.testing`."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import demiurge.testing


def test_no_module_hides_a_public_name() -> None:
    modules = {module.name for module in pkgutil.iter_modules(demiurge.testing.__path__)}
    assert modules.isdisjoint(demiurge.testing.__all__)


def test_importing_demiurge_does_not_import_the_kit_or_pytest() -> None:
    code = """
import sys
import demiurge
assert "demiurge.testing" not in sys.modules
from demiurge.testing import fault_point
assert "demiurge.bootstrap" not in sys.modules
from demiurge.testing import *
assert callable(memory_world)
assert "pytest" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
