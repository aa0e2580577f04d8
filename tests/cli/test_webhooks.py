"""`demiurge webhooks`: a URL and a key come in and are shown once, and the list says how deliveries stand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.bootstrap.webhook_worlds import LOOPBACK, manifest_with
from tests.canaries.search import bytes_below, find_values
from tests.cli.conftest import Processes, Run

PATH = "/canary-path-0123456789"


@contextmanager
def receiving(statuses: list[int]) -> Iterator[tuple[str, list[bytes]]]:
    """A receiver that answers with one status after the other, the last one for good. Yields its URL and its bodies."""
    bodies: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
            self.end_headers()

        def log_message(self, *_parts: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{PATH}", bodies
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def granted(demiurge: Run, tmp_path: Path) -> Run:
    """Commands on a world whose webhooks may deliver to this machine."""
    assert demiurge("init").status == 0
    done = demiurge("manifest", "set", str(manifest_with(LOOPBACK, tmp_path / "own")))
    assert done.status == 0, done.err
    return demiurge


def test_a_webhook_is_added_tested_rotated_and_removed(granted: Run, world: Path, tmp_path: Path) -> None:
    assert "There is no webhook yet" in granted("webhooks", "ls").out
    with receiving([204]) as (url, bodies):
        added = granted("webhooks", "add", "-", "--name", "phone", "--json", stdin=f"{url}\n".encode())
        assert added.status == 0, added.err
        hook, key = added.document["id"], added.document["key"]
        tested = granted("webhooks", "test", hook, "--json")
        assert tested.document["ok"] is True
        assert json.loads(bodies[0])["type"] == "webhook.test"
        rotated = granted("webhooks", "rotate", hook)
        assert rotated.out.startswith("whsec_")
        assert rotated.out.strip() != key
        [one] = granted("webhooks", "ls", "--json").document["webhooks"]
        assert (one["name"], one["state"], one["delivered"], one["attempts"]) == ("phone", "active", 1, 1)
        assert one["origin"] == url.removesuffix(PATH)
        shown = granted("webhooks", "ls")
        assert all(word in shown.out for word in (hook, "phone", "active", "1/1"))
        checked = granted("doctor")
        assert "webhook phone" in checked.out + checked.err
        assert "last delivery" in checked.out + checked.err
    assert find_values([key, PATH], *bytes_below(world), shown.out, checked.out, tested.out) == []
    assert granted("webhooks", "rm", hook).out == f"{hook} is removed.\n"
    assert granted("webhooks", "ls", "--json").document == {"webhooks": []}
    again = granted("webhooks", "rm", hook)
    assert (again.status, "webhooks ls" in again.err) == (1, True)


def test_a_stopped_webhook_is_shown_and_a_test_that_fails_exits_with_1(granted: Run) -> None:
    with receiving([500, 410]) as (url, _):
        hook = granted("webhooks", "add", url, "--json").document["id"]
        failed = granted("webhooks", "test", hook)
        assert (failed.status, "The receiver answered 500." in failed.err) == (1, True)
        gone = granted("webhooks", "test", hook, "--json")
        assert (gone.status, gone.document["problem"]) == (1, "The receiver answered 410 Gone.")
    shown = granted("webhooks", "ls").out
    assert "stopped" in shown
    assert "410 Gone" in shown
    checked = granted("doctor", "--json").document["checks"]
    [check] = [each for each in checked if each["name"].startswith("webhook")]
    assert (check["status"], f"webhooks test {hook}" in check["mend"]) == ("warn", True)


def test_a_receiver_that_no_grant_covers_is_refused_with_what_to_do(demiurge: Run) -> None:
    refused = demiurge("webhooks", "add", "http://127.0.0.1:9/x", "--json")
    assert (refused.status, refused.document["error"]["code"]) == (1, "not_granted")
    assert "cap_webhook" in refused.document["error"]["message"]
    assert "docs/webhooks.md" in refused.document["error"]["message"]


def test_a_call_that_a_command_leaves_waiting_is_announced_before_the_command_ends(granted: Run) -> None:
    with receiving([204]) as (url, bodies):
        granted("webhooks", "add", url)
        called = granted("tools", "call", "workspace__write", '{"path": "a.txt", "text": "canary-0123456789"}')
        assert "approvals" in called.out + called.err
        [body] = bodies
        assert json.loads(body)["data"]["tool"] == "workspace__write"
        assert b"canary-0123456789" not in body


def test_a_served_world_takes_webhooks_over_http_and_links_to_its_pages(granted: Run, process: Processes) -> None:
    token = granted("tokens", "add", "user:ada", "--role", "user").out.strip()
    serving = process.start("serve", "--port", "0", "--json")
    assert serving.stdout is not None
    url = json.loads(serving.stdout.readline())["url"]
    with receiving([204]) as (receiver, bodies):
        served = ("-w", url, "--token", token)
        hook = granted(*served, "webhooks", "add", receiver, "--json").document["id"]
        called = granted(*served, "tools", "call", "workspace__write", '{"path": "a.txt", "text": "x"}')
        assert "approvals" in called.out + called.err
        while not bodies:
            time.sleep(0.01)
        assert json.loads(bodies[0])["data"]["link"] == f"{url}/approvals"
        assert granted(*served, "webhooks", "test", hook).status == 0
        [one] = granted(*served, "webhooks", "ls", "--json").document["webhooks"]
        assert (one["delivered"], one["waiting"]) == (2, 0)
    serving.terminate()
    assert process.finish(serving).status == 0
