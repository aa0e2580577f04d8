"""Unpacks recorded worlds, with what the user who recorded them trusts, into a folder of the test's choice."""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from demiurge import ToolPolicy, World

__all__ = ["Recording", "agrees", "as_definitions", "desk", "differences", "unpack"]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Recording:
    """Recorded worlds in a folder, and what the program that recorded them says of them."""

    folder: Path
    facts: dict[str, Any]

    @property
    def home(self) -> Path:
        """The home folder of the user who recorded."""
        return self.folder / "home"

    def world(self, name: str) -> Path:
        """The folder of a world."""
        return self.folder / name

    def module(self, name: str) -> ModuleType:
        """A module of the recorded code, which finds its neighbours."""
        code = str(self.folder / "code")
        if code not in sys.path:
            sys.path.insert(0, code)
        spec = spec_from_file_location(name, self.folder / "code" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module


def unpack(name: str, folder: Path) -> Recording:
    """Unpack `name.tar.gz`. What its user trusts is kept by the worlds' places, so it is moved along."""
    with tarfile.open(HERE / f"{name}.tar.gz") as tar:
        tar.extractall(folder, filter="tar")
    recording = Recording(folder.resolve(), json.loads((folder / "facts.json").read_text("utf-8")))
    for world, facts in recording.facts["worlds"].items():
        _move(recording, facts["folder"], recording.world(world))
    return recording


def _move(recording: Recording, then: str, now: Path) -> None:
    records = recording.home / ".config/demiurge/worlds"
    old = records / _name(then)
    found = json.loads(old.read_text("utf-8")) | {"world": str(now)}
    code = str(Path(then).parent / "code")
    for key in ("folder", "policy"):
        if found[key]:
            found[key] = found[key].replace(code, str(recording.folder / "code"))
    old.write_text(json.dumps(found, sort_keys=True, separators=(",", ":")), encoding="utf-8")
    old.rename(records / _name(str(now)))


def _name(folder: str) -> str:
    return hashlib.sha256(folder.encode()).hexdigest()[:32] + ".json"


def agrees(then: Any, now: Any) -> bool:
    """Whether all that was said then is said now. Records may have gained fields; whoever reads them knows none."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and agrees(value, now[name]) for name, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(then) == len(now) and all(map(agrees, then, now))
    return bool(then == now)


def as_definitions(changed: Sequence[str] | None) -> list[str] | None:
    """Returns the changed parts of a manifest as they were called when settings and the prompt were definitions."""
    if changed is None:
        return None
    return sorted({"definitions" if part in ("prompt", "settings") else part for part in changed})


def differences(
    recording: Recording, demiurge: Any, world: str, more: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """Returns what the program says of a recorded world otherwise than the one that recorded it: the checks and heads
    of the journal, and the states of units. `more`: recorded states of units of the system."""
    facts = recording.facts["worlds"][world]
    asked = {
        "verified": ("journal", "verify", "--seal", facts["verified"]["seal"]),
        "replayed": ("replay", "--check"),
        "heads": ("journal", "head"),
    }
    found = [name for name, command in asked.items() if not agrees(facts[name], demiurge(world, *command))]
    for unit, state in {**facts["states"], **more}.items():
        module, _, rest = unit.partition("@")
        version, _, key = rest.partition("/")
        chosen = ("--key", key) if key else ()
        if not agrees(state, demiurge(world, "state", "get", f"{module}@{version}", *chosen)):
            found.append(unit)
    return found


def desk(recording: Recording, world: str = "desk") -> World:
    """A recorded world of chats, opened with the tools that it was recorded with."""
    policy = ToolPolicy.load(recording.folder / "code/policy.toml")
    return World.open(recording.world(world), recording.module("desk_tools").TOOLS, policy, create=False)
