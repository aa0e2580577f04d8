"""Records the worlds of `extensions.tar.gz`: a manifest that extends the app, and hosts that tools may ask.

Run it as `python -m tests.recorded.record_extensions FILE` from the project's folder. The file in the project is never
written again (`README.md`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.recorded.record import Recorder, calls, main, text

WORLDS = ("desk", "fork")
HOST = "rates.invalid"


def record_extensions(rec: Recorder) -> dict[str, Any]:
    """Calls with hosts and without, under the app, under an extension, and under the app again."""
    rec.run("desk", "init", "--tools", "web_tools", "--allow-host", HOST)
    asked = [("rate", {"host": host}) for host in (HOST, "other.invalid")]
    rec.turn("main", "What are the rates?", calls(*asked), text("Nobody says."))
    rec.run("desk", "manifest", "set", "extension")
    rec.turn("main", "And now?", calls(asked[0], ("introspect__manifest", {})), text("Nobody says that either."))
    rec.run("desk", "manifest", "set", "--shipped")
    rec.run("desk", "init", "--forget")
    rec.run("desk", "init", "--tools", "web_tools")
    rec.run("desk", "tools", "call", "rate", json.dumps({"host": HOST}), status=1)
    rec.run("desk", "manifest", "set", "extension")
    rec.run("desk", "fork", str(rec.folder / "fork"))
    log = rec.run("desk", "manifest", "log")
    return {"log": [[entry["how"], entry["changed"]] for entry in log]}


if __name__ == "__main__":
    main(Path(sys.argv[1]), WORLDS, record_extensions)
