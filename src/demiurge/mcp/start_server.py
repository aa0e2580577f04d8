"""Starts the program of an MCP server, so that the kernel kills it when the process that started it dies.

Run as a script, in a Python that imports next to nothing: `python -I -S start_server.py PARENT PROGRAM ARGUMENT...`.
The script becomes the program. Only Linux can tie a process to its parent; elsewhere the server has to notice that its
standard input was closed.
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Becomes the program `command`, unless `parent`, the id of the process that started this one, is gone."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program inherits what is ignored
        signal.signal(ignored, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606  (the point of this module)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
