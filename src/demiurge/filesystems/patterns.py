"""Regular expressions and globs that always terminate.

Python's `re` can run for ever on a line of forty characters, and no thread can stop it. So both are matched by
pydantic's regular expression engine, whose time grows linearly with the text. Features that it lacks (look-around, back
references) are refused, and the caller limits the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, core_schema

from demiurge.filesystems.paths import checked
from demiurge.tools.errors import ToolUserError

__all__ = ["Matches", "glob_root", "path_glob", "regular_expression"]

Matches: TypeAlias = Callable[[str], bool]

_MAGIC: Final = re.compile(r"[*?\[]")
_REASON: Final = re.compile(r"error: (.+)")


def regular_expression(pattern: str, most_chars: int) -> Matches:
    """Returns a function that tells whether a line matches `pattern`. Raises ToolUserError for an invalid pattern."""
    _check_length(pattern, most_chars)
    try:
        return _compiled(pattern)
    except SchemaError as error:
        found = _REASON.search(str(error))
        reason = found[1] if found else "it is too large" if "size limit" in str(error) else "it can't be read"
        raise ToolUserError(
            f"The regular expression can't be used: {reason}. Look-around and back references are not known here; "
            "put a backslash before . * + ? ( ) [ ] { } | ^ $ that stand for themselves."
        ) from error


def path_glob(pattern: str, most_chars: int) -> Matches:
    """Returns a function that tells whether a path matches the whole glob. `*` and `?` stay within a name, `[a-z]` and
    `[!a-z]` are one character, `**` as a whole name matches any number of folders. Raises ToolUserError."""
    _check_length(pattern, most_chars)
    names = pattern.split("/")
    checked(_MAGIC.sub("x", pattern))
    body = ""
    for at, name in enumerate(names):
        is_last = at == len(names) - 1
        if name == "**":
            body += ".*" if is_last else "(?:.*/)?"
        else:
            body += _name_expression(name) + ("" if is_last else "/")
    try:
        return _compiled(f"(?s)\\A{body}\\z")
    except SchemaError as error:
        raise ToolUserError("The glob can't be read: check its [ ].") from error


def glob_root(pattern: str) -> str:
    """Returns the literal folders that a glob begins with: all its matches are inside."""
    plain: list[str] = []
    for name in pattern.split("/")[:-1]:
        if _MAGIC.search(name):
            break
        plain.append(name)
    return "/".join(plain)


@lru_cache(maxsize=32)
def _compiled(pattern: str) -> Matches:
    schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
    return SchemaValidator(schema).isinstance_python


def _check_length(pattern: str, most_chars: int) -> None:
    if not pattern:
        raise ToolUserError("The pattern is empty.")
    if len(pattern) > most_chars:
        raise ToolUserError(f"A pattern has at most {most_chars} characters.")
    try:
        pattern.encode()
    except UnicodeEncodeError as error:
        raise ToolUserError("The pattern holds half a character.") from error


def _name_expression(name: str) -> str:
    """Returns one name of a glob as a regular expression."""
    body, at = "", 0
    while at < len(name):
        sign = name[at]
        at += 1
        end = name.find("]", at + (2 if name[at : at + 1] in ("!", "^") else 1)) if sign == "[" else -1
        if sign == "*":
            body += "[^/]*"
        elif sign == "?":
            body += "[^/]"
        elif end > 0:
            inner = name[at:end]
            negated = inner[0] in "!^"
            characters = re.sub(r"([\\\[\]^&~])", r"\\\1", inner[1:] if negated else inner)
            body += f"[^/{characters}]" if negated else f"[[{characters}]&&[^/]]"
            at = end + 1
        else:
            body += re.escape(sign)
    return body
