"""The words of an erased message, and whether another text holds or quotes them.

Words are searched for in bytes of any form: JSON in JSON, CBOR or plain text. So both sides are *folded* first: escapes
are undone as far as possible, white space and quotation marks become one blank, and backslashes are dropped.

Invariant: a copy holds all the words of one text of at least 8 characters; shorter words, such as "yes", are a copy
only if they are the whole of a text. A quotation is less: three words in a row, or one word that is long or has a
digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json

__all__ = ["ErasedWords", "fold", "message_of"]

_LEAST: Final = 8
_TITLE: Final = 60
"""How many characters of a first message older versions made the title of its chat."""

_UNICODE: Final = re.compile(r"\\+u([0-9a-fA-F]{4})")
_BLANK: Final = re.compile(r'(?<!\\)(?:\\+[nrtbf]|\\*["\s\x08/])+')
"""A run that folding makes one blank, together with the backslashes in it."""
_WORD: Final = re.compile(r"\w+(?:[-'.@_]\w+)*")
_NAMES: Final = frozenset(
    (
        "$tag", "actor", "by", "call_id", "cap", "chat_id", "code", "correlation", "error_code",
        "finish_reason", "grant", "id", "key", "kind", "model", "name", "origin", "plan", "provider",
        "provider_id", "ref", "role", "schema", "status", "tool", "tool_call_id", "unit", "verdict",
    )
)  # fmt: skip
"""Fields of records that hold names, never a person's words."""


def fold(data: bytes | str) -> str:
    """Returns the folded text of `data`, for comparison only."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if "\\" in text:
        text = _UNICODE.sub(lambda found: chr(int(found[1], 16)), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _BLANK.sub(" ", text).replace("\\", "").strip()


def message_of(data: bytes) -> Mapping[str, Any] | None:
    """Returns the message in a blob; None if the blob is not a message."""
    if not data.startswith(b"{") or b'"role"' not in data:
        return None
    try:
        found = canonical_json.parse_object(data)
    except InvalidValue:
        return None
    return found if isinstance(found.get("role"), str) and "content" in found else None


_HEAD: Final = re.compile(
    rb"(?<=[Xx])\\|(?<=[Yy])\\|(?<=[Yy].)\\|(?<=[Zz])\\|(?<=[Zz].)\\|(?<=[Zz]..)\\|(?<=[Zz]...)\\", re.DOTALL
)
"""A backslash that may be a length byte before a text or bytes in CBOR, and so escapes nothing."""


class ErasedWords(NamedTuple):
    """The words to look for. `texts` are folded, each without surrounding blanks; `titles` are the chat titles that
    older versions made of them. `needles` are the bytes of each text and title that folding leaves unchanged, the
    longest first."""

    texts: tuple[str, ...]
    titles: tuple[str, ...]
    runs: frozenset[tuple[str, ...]]
    marks: frozenset[str]
    needles: tuple[tuple[bytes, ...], ...]

    @classmethod
    def of(cls, *blobs: bytes) -> ErasedWords:
        """Returns the words of messages, of proposed calls, and of text blobs; none for any other blob."""
        unfolded = [text for data in blobs for text in _texts_in(data)]
        texts = tuple(dict.fromkeys(text for text in map(fold, unfolded) if text not in ("", "{}", "[]", "null")))
        runs: set[tuple[str, ...]] = set()
        marks: set[str] = set()
        for text in texts:
            words = _words(text)
            runs.update(run for run in _runs(words, min(3, len(words))) if len("".join(run)) >= _LEAST)
            marks.update(word for word in words if len(word) >= 10 or (len(word) >= 4 and any(map(str.isdigit, word))))
        titles = tuple(filter(None, (fold(text[:_TITLE]) for text in unfolded)))
        needles = tuple({_needles(text) for text in (*texts, *titles)})
        return cls(texts, titles, frozenset(runs), frozenset(marks), needles)

    def may_stand_in(self, data: bytes) -> bool:
        """Returns whether `data` could hold one of the texts or titles: a quick check before a thorough one. Escapes
        are not undone, so data with a backslash always needs the thorough check."""
        return b"\\" in data or any(all(part in data for part in parts) for parts in self.needles)

    def copied_in(self, data: bytes | str) -> bool:
        """Returns whether `data` holds all of one text."""
        if isinstance(data, bytes) and not self.may_stand_in(data):
            return False
        forms = {fold(data), fold(_HEAD.sub(b" ", data))} if isinstance(data, bytes) else {fold(data)}
        return any(text in form if len(text) >= _LEAST else text == form for form in forms for text in self.texts)

    def quoted_in(self, text: str) -> bool:
        """Returns whether another text holds or quotes some of the words."""
        if self.copied_in(text):
            return True
        words = _words(fold(text))
        if not self.marks.isdisjoint(words):
            return True
        return any(not self.runs.isdisjoint(_runs(words, size)) for size in {len(run) for run in self.runs})

    def stated_in(self, body: Any) -> str | None:
        """Returns the field of a record's body that holds the words, as text or as bytes; None if none does."""
        leaves = list(_leaves(body, "", ""))
        names = {value for _, name, value in leaves if name in _NAMES}  # a chat's title is its id unless one is given
        for path, name, value in leaves:
            if name in _NAMES or value in names:
                continue
            if self.copied_in(value) or (name == "title" and fold(value) in self.titles):
                return path
        return None


def texts_of(message: Mapping[str, Any]) -> Iterator[str]:
    """Yields the text of a message, and the arguments of the calls that it proposes."""
    content = message["content"]
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield "".join(
            part["text"] for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        )
    for call in message.get("tool_calls", ()):
        if isinstance(call, Mapping) and isinstance(call.get("arguments_json"), str):
            yield call["arguments_json"]


def _texts_in(data: bytes) -> Iterator[str]:
    message = message_of(data)
    if message is not None:
        yield from texts_of(message)
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    if text.startswith("{") and '"arguments_json"' in text:
        try:
            yield str(canonical_json.parse_object(data)["arguments_json"])
            return
        except (InvalidValue, KeyError):
            pass
    yield text


def _needles(folded: str) -> tuple[bytes, ...]:
    """Returns the parts between blanks, except those that folding may have changed."""
    parts = [part for part in folded.split(" ") if "\ufffd" not in part]
    return tuple(part.encode() for part in sorted(set(parts), key=len, reverse=True))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return zip(*(islice(words, start, None) for start in range(size)), strict=False)


def _leaves(node: Any, path: str, name: str) -> Iterator[tuple[str, str, str | bytes]]:
    """Yields each text of a value: its path, the field that it is in, and the text."""
    if isinstance(node, str | bytes):
        yield path, name, node
    elif isinstance(node, Mapping):
        for key, part in node.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(node, list | tuple):
        for index, part in enumerate(node):
            yield from _leaves(part, f"{path}[{index}]", name)
