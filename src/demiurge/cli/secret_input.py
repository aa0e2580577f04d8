"""Secret values from a prompt, stdin or a variable of the environment; never from an argument.

Arguments stand in the shell's history and in the list of processes.
"""

from __future__ import annotations

import os
import sys

import click

from demiurge.errors import InvalidValue
from demiurge.tools.connections.credentials import MAX_SECRET_CHARACTERS, Secret

__all__ = ["asked_secret"]


def asked_secret(prompt: str, example: str, variable: str | None = None) -> Secret:
    """The value, without the line end that closes it: of the environment's `variable` if one is named, else asked for
    on a terminal, else read from stdin. `example` is a command that pipes one in. Raises InvalidValue (`bad_secret`).
    """
    if variable is not None:
        given = os.environ.get(variable, "").strip().encode("utf-8", "surrogateescape")
    elif sys.stdin.isatty():
        given = click.prompt(prompt, hide_input=True, err=True).encode()
    else:
        given = sys.stdin.buffer.read(4 * MAX_SECRET_CHARACTERS + 2)
    missing = f"{variable} is not set in the environment." if variable is not None else _no_value(example)
    problem, secret = _read(given, missing)
    given = b""  # a traceback may show this frame's variables
    if secret is None:
        raise InvalidValue(problem, code="bad_secret")
    return secret


def _no_value(example: str) -> str:
    return f"There is no value on stdin: pipe it in, as in `{example}`."


def _read(given: bytes, missing: str) -> tuple[str, Secret | None]:
    try:
        text = given.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        return "The value is not UTF-8 text.", None
    if not text.strip():
        return missing, None
    if len(text) > MAX_SECRET_CHARACTERS:
        return f"The value has more than {MAX_SECRET_CHARACTERS} characters.", None
    return "", Secret(text)
