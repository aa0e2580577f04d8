"""Values on the command line: literal text, `@file`, or `@-` for stdin."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any, BinaryIO

import click

from demiurge.errors import InvalidValue, NotFound, Unavailable
from demiurge.values import canonical_json

__all__ = ["new_chat_id", "parse_json", "read_bytes", "read_json", "read_text", "utf8_text"]

LONGEST_CHAT_ID = 256


def utf8_text(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: raises click.BadParameter for arguments that are not UTF-8."""
    if any(unicodedata.category(character) == "Cs" for character in value or ""):
        raise click.BadParameter("it holds bytes that are not UTF-8 text")
    return value


def new_chat_id(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """A click callback for the id of a chat that may be new: UTF-8, 1 to 256 characters, no control characters."""
    if not 1 <= len(value) <= LONGEST_CHAT_ID:
        raise click.BadParameter(f"it must have 1 to {LONGEST_CHAT_ID} characters, and has {len(value)}")
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise click.BadParameter("it holds a control character, such as a line end")
    utf8_text(context, parameter, value)
    return value


def read_bytes(value: str, limit: int | None = None) -> bytes:
    """Returns the bytes of a value. Raises NotFound, Unavailable, and InvalidValue (`too_large`) for a file or a stdin
    of more than `limit` bytes."""
    if not value.startswith("@"):
        return value.encode("utf-8", "surrogateescape")
    if value == "@-":
        return _read(sys.stdin.buffer, value, limit)
    path = Path(value[1:]).expanduser()
    try:
        with path.open("rb") as file:
            return _read(file, value, limit)
    except (FileNotFoundError, IsADirectoryError):
        raise NotFound(f"There is no file {path}. Check its path.") from None
    except OSError as error:
        raise Unavailable(f"The file {path} can't be read ({error.strerror}).") from error


def _read(file: BinaryIO, value: str, limit: int | None) -> bytes:
    content = file.read(-1 if limit is None else limit + 1)
    if limit is not None and len(content) > limit:
        raise InvalidValue(f"{value} holds more than {limit} bytes.", code="too_large")
    return content


def read_text(value: str, limit: int | None = None) -> str:
    """Returns the text of a value. Raises NotFound, Unavailable, and InvalidValue (not UTF-8, or `too_large`, as
    `read_bytes`)."""
    try:
        return read_bytes(value, limit).decode()
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{value} holds something else than UTF-8 text.") from error


def read_json(value: str, name: str = "VALUE") -> Any:
    """Returns the parsed JSON of a value. Raises InvalidValue (`invalid_json`), which gives the position of the mistake
    in the value called `name`; and as `read_bytes`."""
    return parse_json(read_bytes(value), name if not value.startswith("@") else value)


def parse_json(text: str | bytes, where: str) -> Any:
    """Parses JSON. Raises InvalidValue as `read_json`; `where` is the user's name for the text."""
    try:
        return canonical_json.parse(text)
    except InvalidValue as error:
        problem = error.message.rstrip(".")
        raise InvalidValue(f"{where}: {problem}; check its quotes and brackets.", code="invalid_json") from error
