"""Shows the link of a login: on stderr for people, and in a browser if this machine has one with windows.

The link holds no secret that would let its reader take the tokens: the code that comes back is worth nothing without
the verifier, which does not leave this process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from urllib.parse import urlsplit

from demiurge.capabilities.oauth.flow import LOGIN_SECONDS, ShowLink
from demiurge.cli import output

__all__ = ["link_shower"]


def link_shower(*, opens: bool) -> ShowLink:
    """Returns what shows a link, and opens it in a browser if `opens`."""

    async def show(host: str, url: str) -> None:
        minutes = f"{LOGIN_SECONDS / 60:.0f} minutes"
        place = urlsplit(url).hostname or ""
        if place != host:
            output.notice(
                f"{host} asks you to log in at {place}, and gets the answer. Go on only if you know that {place} "
                f"belongs to {host}: else it gets your account at {place}."
            )
        output.notice(f"Log in at {place} with this link, within {minutes} (Ctrl-C stops):\n{url}")
        if opens and _has_windows():
            await asyncio.to_thread(_open, url)

    return show


def _has_windows() -> bool:
    """Returns whether a browser would open a window. A browser in the terminal would take the terminal over."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _open(url: str) -> None:
    try:
        webbrowser.open(url)
    except webbrowser.Error:
        output.notice("No browser could be opened: open the link yourself.")
