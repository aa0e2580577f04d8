"""Images in a terminal that can show them: kitty's and iTerm2's protocols, chosen by the environment alone.

The terminal is never asked what it can do, since its answer would come as typed keys. The bytes are checked to be an
image of a known type and are sent as base64, so that none of them is an escape sequence.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal

__all__ = ["MOST_BYTES", "inline_image", "protocol_of"]

MOST_BYTES: Final = 2 << 20
CHUNK: Final = 4096
PNG: Final = b"\x89PNG\r\n\x1a\n"
IMAGES: Final = (PNG, b"\xff\xd8\xff", b"GIF87a", b"GIF89a")

Protocol = Literal["kitty", "iterm"]


def protocol_of(environment: Mapping[str, str] = os.environ) -> Protocol | None:
    """Returns the protocol of this terminal; None for one that is not known to show images, and inside tmux or
    screen."""
    kind, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or environment.get("STY") or kind.startswith(("screen", "tmux", "dumb")):
        return None
    if kind in ("xterm-kitty", "xterm-ghostty"):
        return "kitty"
    return "iterm" if program in ("iTerm.app", "WezTerm") else None


def inline_image(data: bytes, protocol: Protocol) -> str:
    """Returns what shows an image; "" for bytes that are no image of a type that the protocol takes, or too many."""
    known = (PNG,) if protocol == "kitty" else IMAGES
    if len(data) > MOST_BYTES or not data.startswith(known):
        return ""
    text = base64.b64encode(data).decode("ascii")
    if protocol == "iterm":
        return f"\x1b]1337;File=inline=1;size={len(data)};width=auto;preserveAspectRatio=1:{text}\x07\n"
    return "".join(_kitty(text)) + "\n"


def _kitty(text: str) -> Iterator[str]:
    for start in range(0, len(text), CHUNK):
        first = "a=T,f=100,q=2," if start == 0 else ""
        more = int(start + CHUNK < len(text))
        yield f"\x1b_G{first}m={more};{text[start : start + CHUNK]}\x1b\\"
