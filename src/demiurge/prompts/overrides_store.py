"""Stores of overrides: in memory, or in a folder of JSON files that people can read and a repository can hold.

Both refuse an override that cannot be applied to the prompt as it is now: for parts that it does not have or that do
not accept overrides, with the hash of another text, or with unknown placeholders.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pydantic import TypeAdapter, ValidationError

from demiurge.errors import Damaged
from demiurge.prompts.overrides import PromptDescriptor, PromptOverride
from demiurge.prompts.section import checked_key
from demiurge.prompts.template import checked_ns

__all__ = ["FolderOverrides", "InMemoryOverrides", "PromptOverridesStore"]

_FORM = TypeAdapter(PromptOverride)


class PromptOverridesStore(Protocol):
    """Overrides by prompt and tag. `descriptor`: the prompt's present one."""

    def get(self, ns: str, prompt_key: str, tag: str = "latest") -> PromptOverride | None: ...

    def put(self, descriptor: PromptDescriptor, override: PromptOverride) -> None:
        """Stores `override` in place of the one with its tag. Raises PromptValidationError."""

    def delete(self, ns: str, prompt_key: str, tag: str = "latest") -> bool:
        """Removes an override. Returns whether there was one."""


class InMemoryOverrides:
    """Overrides for the lifetime of the process."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], PromptOverride] = {}

    def get(self, ns: str, prompt_key: str, tag: str = "latest") -> PromptOverride | None:
        return self._kept.get(_address(ns, prompt_key, tag))

    def put(self, descriptor: PromptDescriptor, override: PromptOverride) -> None:
        """Stores `override`; see PromptOverridesStore."""
        descriptor.check(override)
        self._kept[override.ns, override.prompt_key, override.tag] = override

    def delete(self, ns: str, prompt_key: str, tag: str = "latest") -> bool:
        return self._kept.pop(_address(ns, prompt_key, tag), None) is not None


class FolderOverrides:
    """Overrides as `<folder>/<ns>/<key>/<tag>.json`, with a `/` in ns written as `+`. A file is replaced atomically;
    of two concurrent writes the last one wins. Raises OSError if the disk does."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def get(self, ns: str, prompt_key: str, tag: str = "latest") -> PromptOverride | None:
        """Returns the override or None. Raises Damaged for a file that is not an override of this prompt and tag."""
        path = self._path(ns, prompt_key, tag)
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            found = _FORM.validate_json(text, strict=True, extra="forbid")
        except ValidationError as error:
            raise Damaged(
                f"{path} is not an override of a prompt: repair or remove it.", code="override_file"
            ) from error
        if (found.ns, found.prompt_key, found.tag) != _address(ns, prompt_key, tag):
            raise Damaged(f"{path} is the override of another prompt or tag: move it.", code="override_file")
        return found

    def put(self, descriptor: PromptDescriptor, override: PromptOverride) -> None:
        """Writes the file of `override`; see PromptOverridesStore."""
        descriptor.check(override)
        path = self._path(override.ns, override.prompt_key, override.tag)
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, _FORM.dump_json(override, indent=2) + b"\n")

    def delete(self, ns: str, prompt_key: str, tag: str = "latest") -> bool:
        with suppress(FileNotFoundError):
            self._path(ns, prompt_key, tag).unlink()
            return True
        return False

    def _path(self, ns: str, prompt_key: str, tag: str) -> Path:
        ns, prompt_key, tag = _address(ns, prompt_key, tag)
        return self.folder / ns.replace("/", "+") / prompt_key / f"{tag}.json"


def _address(ns: str, prompt_key: str, tag: str) -> tuple[str, str, str]:
    return checked_ns(ns), checked_key(prompt_key, "prompt"), checked_key(tag, "tag")


def _replace(path: Path, data: bytes) -> None:
    """Writes a file beside `path`, syncs it to disk, and renames it to `path`."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
