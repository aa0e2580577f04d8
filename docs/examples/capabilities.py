import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from tempfile import TemporaryDirectory

from demiurge import ToolContext, ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.capabilities import FolderWorkspaces, LocalHttp
from demiurge.tools.capabilities import HttpAccess, SecretName, Workspaces
from demiurge.tools.core import CORE_TOOLS


class Weather(BaseHTTPRequestHandler):
    """Stands in for a service on the internet."""

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == "Bearer s3cret-weather-key"
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(b"rain" if known else b"who are you?")

    def log_message(self, *_: object) -> None:
        pass


@tool(effect=ToolEffect.READ_ONLY, capabilities=(HttpAccess,))
async def weather(url: str, context: ToolContext) -> str:
    """Reads the weather at a URL."""
    http = context.resources.get(HttpAccess)
    assert http is not None
    answer = await http.request("GET", url, headers={"Authorization": SecretName("weather", 1)})
    return answer.body.decode()


async def main(folder: str, port: int) -> None:
    http = LocalHttp(
        ["127.0.0.1"],  # elsewhere: ["api.example.com"], and none of the next three lines
        schemes=["http"],
        ports=[80, port],
        internal_networks=["127.0.0.0/8"],
        secrets={"weather": "s3cret-weather-key"},
    )
    shipped = [each for each in CORE_TOOLS if each.name.startswith("workspace__")]
    runner = ToolRunner(
        [weather, *shipped],
        policy=ToolPolicy(("weather", *(each.name for each in shipped))),
        resources={HttpAccess: http, Workspaces: FolderWorkspaces(folder)},
    )
    for name, arguments in (
        ("weather", {"url": f"http://127.0.0.1:{port}/berlin"}),
        ("weather", {"url": "http://169.254.169.254/latest/meta-data/"}),
        ("workspace__write", {"path": "berlin.txt", "text": "rain\n"}),
        ("workspace__write", {"path": "berlin.txt", "text": "sun\n", "expected_version": 0}),
        ("workspace__read", {"path": "berlin.txt"}),
        ("workspace__read", {"path": "../../etc/passwd"}),
    ):
        result = await runner.exec(name, arguments)
        said = (result.safe_message or result.content).splitlines()
        print(f"{name}: {result.error_code or 'ok'}: {said[0]}")


server = HTTPServer(("127.0.0.1", 0), Weather)
threading.Thread(target=server.serve_forever, daemon=True).start()
with TemporaryDirectory() as folder:
    asyncio.run(main(folder, server.server_port))
server.shutdown()
server.server_close()
