"""The user's editor, for the arguments of a call. The file is private and is removed when the editor ends."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from itertools import dropwhile
from pathlib import Path

from demiurge.cli import output
from demiurge.errors import Unavailable

__all__ = ["edited", "notes", "without_notes"]

USUAL = ("sensible-editor", "nano", "vi")


NOTE = "//"
"""The beginning of a line above the text that is not part of it."""


def notes(problem: str) -> str:
    """Returns the lines above a text that say what is wrong with it; none if nothing is."""
    if not problem:
        return ""
    lines = [*output.plain(problem).splitlines(), "Leave the text as it is, or empty it, to give up."]
    return "".join(f"{NOTE} {line}\n" for line in lines)


def without_notes(text: str) -> str:
    """Returns the text below the notes."""
    return "".join(dropwhile(lambda line: line.startswith(NOTE), text.splitlines(keepends=True)))


def edited(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Returns `text` as the user leaves it in $VISUAL or $EDITOR. Raises Unavailable: there is no editor, or it
    failed."""
    command = _command(environment)
    with tempfile.TemporaryDirectory(prefix="demiurge-") as folder:
        file = Path(folder) / "arguments.json"
        file.write_text(text, encoding="utf-8")
        before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the editor
        try:
            status = subprocess.run([*command, str(file)], stdin=sys.stdin, check=False).returncode  # noqa: S603
        except OSError as error:
            raise Unavailable(f"The editor {command[0]} can't be started ({error.strerror}); set EDITOR.") from error
        finally:
            signal.signal(signal.SIGINT, before)
        if status != 0:
            raise Unavailable(f"The editor ended with status {status}, so the arguments stay as they were.")
        return file.read_text(encoding="utf-8")


def _command(environment: Mapping[str, str]) -> list[str]:
    named = environment.get("VISUAL") or environment.get("EDITOR")
    if named:
        return shlex.split(named)
    found = next((path for name in USUAL if (path := shutil.which(name)) is not None), None)
    if found is None:
        raise Unavailable("There is no editor here: set EDITOR, such as EDITOR=nano.")
    return [found]
