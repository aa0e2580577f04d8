"""What a handler returns, and how it reads as text for the model.

The model's text is the message, a blank line and the rendered value; a value marked
`exclude_value_from_context` is left out of the text. That flag saves tokens; it is not a security boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from pydantic_core import from_json, to_json

from demiurge.tools.execution.interrupt import is_from_outside

__all__ = ["ToolRenderableResult", "ToolResult", "join_text", "plain_text", "render_value"]

ValueT = TypeVar("ValueT")


@runtime_checkable
class ToolRenderableResult(Protocol):
    """A value that knows how it should read for the model."""

    def render(self) -> str: ...


@dataclass(frozen=True)  # not slotted: subscripted and called, which frozen and slotted together can't before 3.13
class ToolResult(Generic[ValueT]):
    """`message`: text for the model. `value`: typed payload or None. `success=False` is a failure that the
    handler reports by itself: the model gets its message, anyone else only if the redaction shows messages."""

    message: str
    value: ValueT | None = None
    success: bool = True
    exclude_value_from_context: bool = False

    def render(self) -> str:
        """The value as text; empty for None."""
        return render_value(self.value)


def render_value(value: object, encoded: bytes | None = None) -> str:
    """Text for the model: the value's own `render()`, text as it is, everything else as compact JSON.

    Items of a list that render themselves are joined by blank lines, or to a JSON array if each reads as JSON. Inside
    anything else a `render()` does not count. `encoded` is the value's JSON when the caller has it already. A
    `render()` that raises, or gives what UTF-8 can't write, is ignored."""
    if value is None:
        return ""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, bytes | bytearray):
        return _text_of_bytes(value, encoded)
    own = _rendered(value)
    if own is not None:
        return own
    if isinstance(value, list | tuple) and any(hasattr(type(item), "render") for item in value):
        parts = [render_value(item) for item in value]
        return f"[{','.join(parts)}]" if all(map(_is_json, parts)) else "\n\n".join(parts)
    if encoded is not None:
        return encoded.decode()
    try:
        return to_json(value, fallback=str).decode()
    except ValueError:  # what JSON can't hold: bytes that are no text, a value that contains itself
        return str(value).encode(errors="replace").decode()


def _text_of_bytes(value: bytes | bytearray, encoded: bytes | None) -> str:
    """As UTF-8; what is no UTF-8 as the text that JSON has for it, else with a replacement for what can't be read."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        text = None if encoded is None else from_json(encoded)
        return text if isinstance(text, str) else value.decode(errors="replace")


def _rendered(value: object) -> str | None:
    render = getattr(type(value), "render", None)
    if render is None:
        return None
    try:
        return plain_text(str(render(value)))
    except BaseException as error:  # a broken rendering must not lose a result
        if is_from_outside(error):
            raise
        return None


def _is_json(text: str) -> bool:
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def plain_text(text: str) -> str:
    """`text` as exactly a `str` that UTF-8 can write. Raises TypeError, UnicodeEncodeError."""
    if type(text) is str and text.isascii():
        return text
    return str.encode(text).decode()


def join_text(message: str, rendering: str) -> str:
    """Message and rendering with a blank line between them, or whichever is not empty."""
    return f"{message}\n\n{rendering}" if message and rendering else message or rendering
