"""Encodes bytes as text for JSON: as UTF-8 if they are valid UTF-8, else `base64:` and their base64.

Bytes whose text itself begins with `base64:` are written in base64 too, so each text stands for one value.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Annotated, Any, Union, get_args

from pydantic import BeforeValidator, PlainSerializer

from demiurge.tools.authoring.named_types import is_union, named_type

__all__ = ["TextBytes", "with_text_bytes"]

_MARK = "base64:"


def _text(value: Any) -> Any:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is not bytes")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = _MARK
    return _MARK + b64encode(value).decode() if text.startswith(_MARK) else text


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return b64decode(value.removeprefix(_MARK), validate=True) if value.startswith(_MARK) else value.encode()


TextBytes = Annotated[bytes, PlainSerializer(_text, when_used="json"), BeforeValidator(_bytes)]
"""Bytes of any content, which can be written as JSON and read back."""


def with_text_bytes(kind: Any) -> Any:
    """Returns the type with TextBytes in place of `bytes` and `bytes | None`; any other type unchanged."""
    named = named_type(kind)
    if named is bytes:
        return TextBytes
    arms = get_args(named) if is_union(named) else ()
    if bytes in arms and set(arms) <= {bytes, type(None)}:
        return Union[TextBytes, None]  # noqa: UP007
    return kind
