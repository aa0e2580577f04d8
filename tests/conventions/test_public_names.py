"""The public surface: small, sorted, complete, and free to import."""

import subprocess
import sys

import demiurge

HEAVY = ("cbor2", "httpx", "pydantic", "sqlite3", "yaml")


def test_all_is_sorted_unique_and_small() -> None:
    assert demiurge.__all__ == sorted(set(demiurge.__all__))
    assert len(demiurge.__all__) <= 70


def test_every_public_name_can_be_imported() -> None:
    for name in demiurge.__all__:
        assert getattr(demiurge, name) is not None


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(demiurge, "Manager")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = f"import demiurge, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
