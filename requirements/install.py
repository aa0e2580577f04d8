"""Installs pinned requirements with pip, and shows one line of progress in place of pip's hundred.

`python requirements/install.py requirements/run.txt`. If pip fails, its whole output is printed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PINNED = re.compile(r"^[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?==", re.MULTILINE)
TAKEN = re.compile(r"(?:Collecting|Requirement already satisfied:) (?P<name>[\w.-]+)")


def main(file: str) -> int:
    count = len(PINNED.findall(Path(file).read_text("utf-8")))
    is_terminal = sys.stderr.isatty()
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--require-hashes", "-r", file]
    print(
        f"Installing the {count} packages of {file} ...", end="" if is_terminal else "\n", file=sys.stderr, flush=True
    )
    said: list[str] = []
    seen: set[str] = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:  # noqa: S603 - pip of this interpreter
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if taken := TAKEN.match(line):
                seen.add(taken["name"])
            if is_terminal:
                words = "installing" if line.startswith("Installing collected") else f"{len(seen)} of {count}"
                print(f"\r\033[KInstalling the packages of {file}: {words}", end="", file=sys.stderr, flush=True)
    if is_terminal:
        print(file=sys.stderr)
    if pip.returncode:
        print("".join(said), file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
