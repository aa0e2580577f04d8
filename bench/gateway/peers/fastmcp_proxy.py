"""fastmcp's proxy: `python fastmcp_proxy.py UPSTREAM_URL PORT FOLDER` prints `{url, headers}` and runs."""

from __future__ import annotations

import json
import sys

from fastmcp.server import create_proxy

upstream, port, _folder = sys.argv[1:]
print(json.dumps({"url": f"http://127.0.0.1:{port}/mcp", "headers": {}}), flush=True)
create_proxy(upstream, name="proxy").run(
    transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="ERROR"
)
