"""ContextForge: `python contextforge.py UPSTREAM_URL PORT FOLDER` starts the gateway, registers the server and a
virtual server with its tools, prints `{url, headers}` and runs. Authentication and rate limits are off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

USER = {"X-Authenticated-User": "admin@example.com"}
PATIENCE_S = 120

upstream, port, folder = sys.argv[1:]
base = f"http://127.0.0.1:{port}"


def ask(method: str, path: str, body: Any = None) -> Any:
    headers = {"content-type": "application/json", **USER}
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(base + path, data, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return json.loads(answer.read())


settings = {
    "DATABASE_URL": f"sqlite:///{folder}/contextforge.db",
    "JWT_SECRET_KEY": "a-long-secret-key-of-a-benchmark-0123456789abcdef",
    "AUTH_ENCRYPTION_SECRET": "another-long-secret-key-of-a-benchmark-0123456789",
    "BASIC_AUTH_PASSWORD": "Of-a-benchmark-0123",
    "PLATFORM_ADMIN_EMAIL": USER["X-Authenticated-User"],
    "PLATFORM_ADMIN_PASSWORD": "Of-a-benchmark-0123!",
    "CACHE_TYPE": "memory",
    "LOG_LEVEL": "ERROR",
    **dict.fromkeys(("DEV_MODE", "SSRF_ALLOW_LOCALHOST", "SSRF_ALLOW_PRIVATE_NETWORKS"), "true"),
    **dict.fromkeys(("TRUST_PROXY_AUTH", "TRUST_PROXY_AUTH_DANGEROUSLY", "MCPGATEWAY_ADMIN_API_ENABLED"), "true"),
    **dict.fromkeys(("AUTH_REQUIRED", "MCP_CLIENT_AUTH_ENABLED", "MCPGATEWAY_UI_ENABLED"), "false"),
    **dict.fromkeys(("RATE_LIMITING_ENABLED", "REQUIRE_STRONG_SECRETS"), "false"),
    "TOOL_RATE_LIMIT": "1000000",
    "ENVIRONMENT": "development",
}
program = Path(sys.executable).parent / "mcpgateway"
gateway = subprocess.Popen(  # noqa: S603
    [str(program), "--host", "127.0.0.1", "--port", port],
    env={**os.environ, **settings},
    cwd=folder,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
deadline = time.monotonic() + PATIENCE_S
while True:
    try:
        ask("GET", "/health")
        break
    except (urllib.error.URLError, ConnectionError):
        if time.monotonic() > deadline or gateway.poll() is not None:
            raise SystemExit("ContextForge did not start") from None
        time.sleep(0.5)
ask("POST", "/gateways", {"name": "up", "url": upstream, "transport": "STREAMABLEHTTP"})
tools = [tool["id"] for tool in ask("GET", "/tools")]
server = ask("POST", "/servers", {"server": {"name": "all", "associated_tools": tools}})
print(json.dumps({"url": f"{base}/servers/{server['id']}/mcp", "headers": USER}), flush=True)
sys.exit(gateway.wait())
