"""The abilities of a client that an MCP server may need, as a sentence that names only what the protocol defines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["missing_capabilities", "missing_sentence"]

_NAMES: Final = (
    "elicitation",
    "elicitation.form",
    "elicitation.url",
    "roots",
    "sampling",
    "sampling.context",
    "sampling.tools",
)
_SENTENCE: Final = re.compile(r"The server needs a client that offers (?P<names>[a-z., ]+), and this one does not\.")
_OTHERS: Final = "The server needs a client that offers more than this one does."


def missing_sentence(data: Any) -> str:
    """Returns a sentence for the data of the protocol's error -32021 (`requiredCapabilities`)."""
    needed = data.get("requiredCapabilities") if isinstance(data, Mapping) else None
    names = ", ".join(_named(needed)) if isinstance(needed, Mapping) else ""
    return f"The server needs a client that offers {names}, and this one does not." if names else _OTHERS


def missing_capabilities(sentence: str) -> dict[str, Any] | None:
    """Returns what `missing_sentence` was given, as far as the protocol defines it; None for another sentence."""
    found = _SENTENCE.fullmatch(sentence)
    if found is None:
        return None
    needed: dict[str, Any] = {}
    for name in found["names"].split(", "):
        of, _, part = name.partition(".")
        needed.setdefault(of, {}).update({part: {}} if part else {})
    return needed


def _named(needed: Mapping[str, Any]) -> list[str]:
    """Returns the names of the abilities; one with parts is named by its parts."""
    named = []
    for of in sorted(needed):
        parts = needed[of] if isinstance(needed[of], Mapping) else {}
        named += [f"{of}.{part}" for part in sorted(parts)] or [of]
    return [name for name in named if name in _NAMES]
