"""The world outside, a process of its own that counts e-mails. `python outside.py` prints its URL; a POST is an e-mail
to the address in its body, a GET returns all addresses so far."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SENT: list[str] = []


class _Outside(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        _SENT.append(self.rfile.read(int(self.headers["content-length"])).decode())
        self._answer(b"{}")

    def do_GET(self) -> None:
        self._answer(json.dumps(_SENT).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Outside)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
