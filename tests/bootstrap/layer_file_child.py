"""A process to be killed: `layer_file_child.py PATH SEEN` writes the layer file PATH, which has the digest SEEN, with
two tools; `layer_file_child.py FOLDER` writes three files of a world's history.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.registry.prompt_tools import tool_of

from demiurge.bootstrap.layer_files import write_history, write_layer_file
from demiurge.values.refs import parse_ref

NEW = (tool_of(), tool_of(id="other_tool"))
VERSION = b'{"tool": null}\n' * 100
HISTORY = [("scene_pacer", f"{number}.json", lambda: VERSION) for number in range(3)]

if __name__ == "__main__":
    if len(sys.argv) == 3:
        write_layer_file(Path(sys.argv[1]), NEW, {tool.id for tool in NEW}, parse_ref(sys.argv[2]))
    else:
        write_history(Path(sys.argv[1]), HISTORY)
