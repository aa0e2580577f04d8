"""Finds what a reader of a text does not see and a model does: invisible characters, terminal escapes, text pushed out
of view, and words in an encoding."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from demiurge.mcp.scan.finding import one_line
from demiurge.mcp.scan.instructions import JudgedPassage, instructions_in
from demiurge.registry.look_alikes import is_foreign_look_alike
from demiurge.tools.authoring.hidden_text import hidden_character

__all__ = ["hidden_in_text"]

_NOT_PLAIN: Final = re.compile(r"[^\x20-\x7e\n\t]+")
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_TAGS: Final = range(0xE0000, 0xE0080)
_SELECTORS: Final = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_JOINERS: Final = "\u200c\u200d\ufe0e\ufe0f"
_BLANK: Final = r"[ \t\u00a0\u3000]"
_OUT_OF_VIEW: Final = re.compile(
    rf"(?<![ \t\u00a0\u3000\r\n])(?:{_BLANK}*+\r?\n){{12,}}+{_BLANK}*+(?=\S)|(?<!{_BLANK}){_BLANK}{{80,}}+(?=\S)"
)
"""Each match begins where its blanks begin and gives none back, so a search takes linear time."""

_BASE64: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?=[A-Za-z+/_-]*[0-9=])(?=[0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{24,}={0,2}"
)
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){12,}(?![0-9A-Za-z])")
_ESCAPES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}|&#x?[0-9a-fA-F]{2,6};){6,}")
_ESCAPE: Final = re.compile(r"(?:\\u|\\x|%|&#x)([0-9a-fA-F]{2,6});?|&#([0-9]{2,6});")
_LONG_BLOB: Final = 100
_WORDS: Final = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}+(?:[ ,.:;'-]++[A-Za-z]++){2,}")


def hidden_in_text(text: str) -> Iterator[JudgedPassage]:
    """Returns the passages of a text that a reader does not see."""
    yield from _characters(text)
    yield from _mixed(text)
    for found in _OUT_OF_VIEW.finditer(text):
        yield JudgedPassage(
            "out_of_view", "high", *found.span(), "Blanks or empty lines push the text after them out of view."
        )
    yield from _encoded(text)


def _characters(text: str) -> Iterator[JudgedPassage]:
    """Yields one passage for each run of invisible characters of one kind."""
    text = text.replace("\r\n", "\n\n")
    run: list[int] = []
    for found in _NOT_PLAIN.finditer(text):
        for at in range(*found.span()):
            if _is_hidden(text, at):
                if run and (at != run[-1] + 1 or _kind(text[at]) != _kind(text[run[-1]])):
                    yield _passage(text, run)
                    run = []
                run.append(at)
    if run:
        yield _passage(text, run)


def _passage(text: str, run: list[int]) -> JudgedPassage:
    start, end = run[0], run[-1] + 1
    kind, letters = _kind(text[start]), text[start:end]
    if kind == "tags" or (kind == "selectors" and len(letters) > 1):
        said = _decoded(letters)
        rule = f"Characters without a shape spell a text{f': {one_line(said)}' if said else ' or data'}."
        return JudgedPassage("hidden_text", "high", start, end, rule)
    if kind == "escape":
        return JudgedPassage(
            "terminal_escape", "high", start, end, "A terminal takes this for a command, not for text."
        )
    if kind == "bidi":
        return JudgedPassage(
            "bidi_control", "high", start, end, "The characters set the direction of the text around them."
        )
    names = ", ".join(dict.fromkeys(f"U+{ord(letter):04X}" for letter in letters[:8]))
    return JudgedPassage("hidden_character", "high", start, end, f"Characters that a reader does not see ({names}).")


def _kind(letter: str) -> str:
    code = ord(letter)
    if code in _TAGS:
        return "tags"
    if any(code in selectors for selectors in _SELECTORS):
        return "selectors"
    if letter in _BIDI:
        return "bidi"
    return "escape" if letter in "\x1b\x9b\x90\x9d\x07\x08" else "other"


def _is_hidden(text: str, at: int) -> bool:
    """Returns whether the character has no shape of its own and shapes no letter before it."""
    letter = text[at]
    if letter not in _JOINERS:
        return hidden_character(letter) is not None
    before = text[at - 1] if at else " "
    is_keycap = letter == "\ufe0f" and text[at + 1 : at + 2] == "\u20e3"
    return (before.isascii() or before in _JOINERS) and not is_keycap


def _decoded(letters: str) -> str:
    """Returns the text that tag characters or variation selectors stand for, "" if there is none."""
    codes = [ord(letter) for letter in letters]
    if codes[0] in _TAGS:
        return "".join(chr(code - 0xE0000) for code in codes if 0x20 <= code - 0xE0000 < 0x7F)
    data = bytes(code - 0xFE00 if code < 0xE0100 else code - 0xE0100 + 16 for code in codes)
    said = data.decode("utf-8", "ignore")
    return said if said.isprintable() else ""


def _mixed(text: str) -> Iterator[JudgedPassage]:
    for word in re.finditer(r"[^\W\d_]+", text):
        if not word[0].isascii() and any(letter.isascii() for letter in word[0]):
            foreign = [letter for letter in word[0] if is_foreign_look_alike(letter)]
            if foreign:
                codes = ", ".join(f"U+{ord(letter):04X}" for letter in dict.fromkeys(foreign))
                rule = f"A word mixes Latin letters with look-alikes of another script ({codes})."
                yield JudgedPassage("mixed_letters", "high", *word.span(), rule)


def _encoded(text: str) -> Iterator[JudgedPassage]:
    last = 0
    for pattern, decode in ((_ESCAPES, _unescaped), (_HEX, _of_hex), (_BASE64, _of_base64)):
        for found in pattern.finditer(text):
            if found.start() < last and pattern is _BASE64:
                continue  # the hexadecimal form of the same passage
            said = decode(found[0])
            passage = _judged(found, said)
            if passage is not None:
                last = max(last, found.end())
                yield passage


def _judged(found: re.Match[str], said: str | None) -> JudgedPassage | None:
    """Returns the passage for an encoded text, None for one that is neither words nor long."""
    if said is not None and (_WORDS.search(said) or instructions_in(said)):
        return JudgedPassage("encoded_text", "high", *found.span(), f"The encoded passage says: {one_line(said[:120])}")
    if len(found[0]) >= _LONG_BLOB:
        return JudgedPassage(
            "encoded_data", "medium", *found.span(), "A long passage of encoded data, which nobody can read."
        )
    return None


def _unescaped(text: str) -> str | None:
    try:
        return "".join(chr(int(one[1], 16) if one[1] else int(one[2])) for one in _ESCAPE.finditer(text))
    except (ValueError, OverflowError):
        return None


def _of_hex(text: str) -> str | None:
    return _readable(bytes.fromhex(text))


def _of_base64(text: str) -> str | None:
    plain = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    plain = plain[: -1 if len(plain) % 4 == 1 else None]  # one letter alone encodes nothing
    try:
        return _readable(base64.b64decode(plain + "=" * (-len(plain) % 4)))
    except (ValueError, binascii.Error):
        return None


def _readable(data: bytes) -> str | None:
    try:
        said = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return said if all(letter.isprintable() or letter in "\n\t" for letter in said) else None
