"""The commands of docs/http.md run against a server, with the token that `init` printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.provider import serving

PAGE = Path(__file__).parents[2] / "docs/http.md"
SCRIPT = re.compile(r"<!-- runs in tests/docs/test_http.py -->\n```sh\n(.*?)```\n", re.DOTALL)


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    script = "".join(SCRIPT.findall(PAGE.read_text("utf-8")))
    with serving() as provider:
        provider.say(provider.answer(provider.text("Good day.")))
        keys = {"LLM_API_KEY": "sk-example", "OPENAI_BASE_URL": provider.url, "DEMIURGE_WORLD": str(tmp_path / "w")}
        environment = {**os.environ, **keys, "HOME": str(tmp_path)}
        demiurge = [sys.executable, "-m", "demiurge.cli"]
        made = subprocess.run([*demiurge, "init", "--json"], env=environment, capture_output=True, check=True)
        serve = [*demiurge, "serve", "--port", "0", "--json"]
        with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
            assert server.stdout is not None
            where = {"URL": json.loads(server.stdout.readline())["url"]}
            token = {"DEMIURGE_TOKEN": json.loads(made.stdout)["token"]}
            command = ["bash", "-euo", "pipefail", "-c", script]
            done = subprocess.run(command, env={**environment, **where, **token}, capture_output=True, timeout=60)
            server.terminate()
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'"title":"First"' in done.stdout
    assert b"Good day." in done.stdout
    assert b'"tool":"core__get_current_time","status":"done","ok":true' in done.stdout
