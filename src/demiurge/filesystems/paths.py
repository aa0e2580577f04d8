"""The rules of paths: names joined by "/", relative to the root, that mean the same to everybody.

Every path is checked here first, so later code never meets "..", an absolute path, a NUL or a backslash. Nothing is
normalised: two spellings are two names. Characters that look like a separator or like dots (fullwidth forms and the
like) are refused, since later software may fold them into the real ones.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from demiurge.tools.authoring.hidden_text import hidden_character
from demiurge.tools.errors import ToolUserError

__all__ = ["TEMP_PREFIX", "above", "checked", "file_path", "is_name", "joined", "parent", "tree_path"]

TEMP_PREFIX: Final = ".demiurge-tmp-"
"""The prefix of half-written files: such a name is never shown and cannot be requested."""

_MOST_CHARACTERS: Final = 1024
_MOST_NAMES: Final = 64
_MOST_NAME_BYTES: Final = 255
_SEPARATORS: Final = ("/", "\\")
_DOTS: Final = ("", ".", "..")


def tree_path(text: str) -> str:
    """Returns the path in its one form, "" for the root. Models also write "/", "." and "./docs/", which are accepted.

    Raises ToolUserError.
    """
    plain = text.removeprefix("./").removesuffix("/")
    return "" if plain in ("", ".") else checked(plain)


def file_path(text: str) -> str:
    """Returns the path of an entry, never the root. Raises ToolUserError."""
    path = tree_path(text)
    if not path:
        raise ToolUserError("This is the top folder: name a path in it.")
    return path


def checked(path: str) -> str:
    """Returns `path` if it is valid. Raises ToolUserError."""
    if len(path) > _MOST_CHARACTERS:
        raise ToolUserError(f"A path has at most {_MOST_CHARACTERS} characters.")
    if path.startswith("/"):
        raise ToolUserError("Paths are relative to the top folder: leave out the / in front.")
    names = path.split("/")
    if ".." in names:
        raise ToolUserError("A path can't lead upwards: write it from the top folder, without '..'.")
    if len(names) > _MOST_NAMES:
        raise ToolUserError(f"A path has at most {_MOST_NAMES} names.")
    if not all(map(is_name, names)):
        raise ToolUserError(
            "A path is names joined by single '/'; a name has 1 to 255 bytes, no backslash, and no control or "
            "invisible characters."
        )
    return path


def is_name(name: str) -> bool:
    """Returns whether an entry may have this name."""
    if name.isascii() and name.isprintable() and len(name) <= _MOST_NAME_BYTES:
        plain = name
    elif hidden_character(name) or "\t" in name or "\n" in name or len(name.encode()) > _MOST_NAME_BYTES:
        return False
    else:
        plain = unicodedata.normalize("NFKC", name)
    return not (plain in _DOTS or any(sign in plain for sign in _SEPARATORS) or name.startswith(TEMP_PREFIX))


def parent(path: str) -> str:
    """Returns the parent folder of `path`, "" for the root and its entries."""
    return path.rpartition("/")[0]


def joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def above(path: str) -> list[str]:
    """Returns the folders above `path`, from the top, without the root."""
    names = path.split("/")[:-1]
    return ["/".join(names[:end]) for end in range(1, len(names) + 1)]
