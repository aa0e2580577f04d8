"""Which provider answers, where it is asked, and that no vendor's key comes to another's address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from demiurge import World
from demiurge.bootstrap.models import Choice, addresses, choose
from demiurge.bootstrap.secrets import open_vault
from demiurge.errors import UsageError
from demiurge.models.address import Address
from demiurge.tools.connections.credentials import Secret
from demiurge.values import canonical_json
from demiurge.values.clock import SystemEntropy

GENERAL, OPENAI, ANTHROPIC = "canary-general-01234567", "canary-openai-012345678", "canary-anthropic-0123456"
KEPT_OPENAI, KEPT_ANTHROPIC = "canary-kept-openai-01234", "canary-kept-anthropic-0123"
KEYS = {"OPENAI_API_KEY": OPENAI, "ANTHROPIC_API_KEY": ANTHROPIC}

SAID = {
    "/responses": {
        "id": "resp_1",
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],
    },
    "/chat/completions": {
        "id": "c_1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    },
    "/v1/messages": {
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
    },
}


@dataclass
class Recorder:
    """A server that keeps every header it is sent, and answers in each format; with `move_to` it sends askers on."""

    url: str = ""
    status: int = 200
    move_to: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seen: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    @property
    def canaries(self) -> set[str]:
        """Every key that came, in whatever header."""
        sent = [value for headers in self.seen for value in headers.values()]
        known = (GENERAL, OPENAI, ANTHROPIC, KEPT_OPENAI, KEPT_ANTHROPIC)
        return {key for key in known if any(key in value for value in sent)}


@contextmanager
def recording() -> Iterator[Recorder]:
    recorder = Recorder()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            recorder.seen.append({**self.headers, ":path": self.path})
            recorder.bodies.append(json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or b"{}"))
            body = json.dumps(next(said for path, said in SAID.items() if self.path.endswith(path))).encode()
            self.send_response(recorder.status if recorder.move_to is None else 307)
            if recorder.move_to is not None:
                self.send_header("location", recorder.move_to + self.path)
            for name, value in recorder.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    recorder.url = f"http://127.0.0.1:{server.server_port}"
    yield recorder
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def servers() -> Iterator[tuple[Recorder, Recorder, Recorder]]:
    """OpenAI's, Anthropic's, and somebody's."""
    with ExitStack() as stack:
        one, two, three = (stack.enter_context(recording()) for _ in range(3))
        yield one, two, three


def environment(servers: tuple[Recorder, Recorder, Recorder], home: Path, **more: str) -> dict[str, str]:
    """Every vendor's key, in the environment and in the vault, and a stand-in for every vendor."""
    openai, anthropic, _ = servers
    found = {"HOME": str(home), "OPENAI_BASE_URL": f"{openai.url}/v1", "ANTHROPIC_BASE_URL": anthropic.url, **more}
    vault = open_vault(found)
    assert vault is not None
    for alias, key in (("llm/api", KEPT_OPENAI), ("llm/anthropic", KEPT_ANTHROPIC)):
        vault.put(alias, 1, Secret(key), SystemEntropy())
    return found


async def ask(folder: Path, environ: Mapping[str, str], **chosen: Any) -> tuple[Any, dict[str, Any]]:
    """The reply, and what the receipt says of the call."""
    async with World.open(folder, environment=environ, titles="off", **chosen) as world:
        reply = await world.chat().send("Hello?")
        payload = [record.body for record in world.journal.read() if record.kind == "receipt"][-1]["payload"]
        usage = canonical_json.parse_object(world.blobs.get(payload["usage_ref"])) if "usage_ref" in payload else {}
        assert (await world.replay())["ok"]
    return reply, usage


# -- the choice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "options", "provider"),
    [
        ({}, {}, "local"),
        ({"LLM_API_KEY": "k"}, {}, "openai-responses"),
        ({"OPENAI_API_KEY": "k"}, {}, "openai-responses"),
        ({"ANTHROPIC_API_KEY": "k"}, {}, "anthropic"),
        ({"LLM_API_KEY": " ", "ANTHROPIC_API_KEY": "k"}, {}, "anthropic"),
        (KEYS, {}, "openai-responses"),
        ({"LLM_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, {}, "openai-responses"),
        ({"LLM_API_KEY": "k"}, {"wanted": "anthropic"}, "anthropic"),
        ({"LLM_API_KEY": "k"}, {"wanted": "local"}, "local"),
        ({}, {"wanted": "openai"}, "openai-responses"),
        ({}, {"base_url": "http://localhost:11434/v1"}, "openai-chat"),
        ({"LLM_API_KEY": "k"}, {"base_url": "http://localhost:11434/v1"}, "openai-responses"),
    ],
)
def test_the_provider_is_the_one_that_is_named_else_the_one_whose_key_is_there(
    environ: dict[str, str], options: dict[str, str], provider: str
) -> None:
    assert choose(environ, **options).provider == provider


def test_a_key_in_the_environment_comes_before_one_in_the_vault(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    vault = open_vault(home)
    assert vault is not None
    vault.put("llm/anthropic", 1, Secret("k"), SystemEntropy())
    assert choose(home) == Choice("anthropic", "claude-sonnet-4-5")
    assert choose({**home, "OPENAI_API_KEY": "k"}).provider == "openai-responses"
    vault.put("llm/api", 1, Secret("k"), SystemEntropy())
    assert choose(home, model="m") == Choice("openai-responses", "m")
    assert choose({**home, "ANTHROPIC_API_KEY": "k"}).provider == "anthropic"


def test_the_local_model_has_no_other_address() -> None:
    for name in ("local", "local-json"):
        with pytest.raises(UsageError, match="openai-chat"):
            choose({}, wanted=name, base_url="http://localhost:11434/v1")


def test_a_given_address_is_for_the_chosen_provider_alone() -> None:
    environ = {"OPENAI_BASE_URL": "http://a/v1", "ANTHROPIC_BASE_URL": "http://b"}
    assert addresses(environ, "openai-chat", "http://c/v1") == {
        "openai-responses": Address("http://a/v1", True),
        "openai-chat": Address("http://c/v1", False),
        "openai-chat-json": Address("http://a/v1", True),
        "anthropic": Address("http://b", True),
    }


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "openai_key", "anthropic_key"),
    [
        (KEYS, OPENAI, ANTHROPIC),
        ({}, KEPT_OPENAI, KEPT_ANTHROPIC),
        ({"OPENAI_API_KEY": OPENAI}, OPENAI, KEPT_ANTHROPIC),
        ({**KEYS, "LLM_API_KEY": GENERAL}, GENERAL, GENERAL),
    ],
)
async def test_each_vendors_key_comes_to_its_own_address_alone(
    servers: Any, tmp_path: Path, keys: dict[str, str], openai_key: str, anthropic_key: str
) -> None:
    openai, anthropic, _ = servers
    environ = environment(servers, tmp_path / "home", **keys)
    for number, provider in enumerate(("openai-responses", "openai-chat", "anthropic")):
        reply, _ = await ask(tmp_path / f"w{number}", environ, provider=provider)
        assert (reply.status, reply.text) == ("done", "Hi")
    assert (openai.canaries, anthropic.canaries) == ({openai_key}, {anthropic_key})
    assert [seen[":path"] for seen in openai.seen] == ["/v1/responses", "/v1/chat/completions"]
    [seen] = anthropic.seen
    assert seen["x-api-key"] == anthropic_key
    assert "authorization" not in {name.lower() for name in seen}


@pytest.mark.parametrize("provider", ["openai-responses", "openai-chat", "anthropic"])
async def test_to_a_given_address_goes_the_general_key_or_none(servers: Any, tmp_path: Path, provider: str) -> None:
    openai, anthropic, somebody = servers
    environ = environment(servers, tmp_path / "home", **KEYS)
    given = somebody.url if provider == "anthropic" else f"{somebody.url}/v1"
    reply, _ = await ask(tmp_path / "w", environ, provider=provider, base_url=given)
    assert reply.status == "done"
    assert somebody.canaries == set()
    await ask(tmp_path / "w", {**environ, "LLM_API_KEY": GENERAL}, provider=provider, base_url=given)
    assert somebody.canaries == {GENERAL}
    assert openai.seen == anthropic.seen == []


@pytest.mark.parametrize("provider", ["openai-responses", "openai-chat", "anthropic"])
async def test_a_server_that_redirects_does_not_get_the_key(servers: Any, tmp_path: Path, provider: str) -> None:
    openai, anthropic, somebody = servers
    openai.move_to, anthropic.move_to = anthropic.url, openai.url
    environ = environment(servers, tmp_path / "home", **KEYS)
    for target in (somebody, openai if provider == "anthropic" else anthropic):
        asked = anthropic if provider == "anthropic" else openai
        asked.move_to = target.url
        reply, _ = await ask(tmp_path / "w", environ, provider=provider)
        assert (reply.status, reply.error_code) == ("failed", "bad_response")
        assert target.seen == []


async def test_a_vendor_without_a_key_is_not_asked(servers: Any, tmp_path: Path) -> None:
    openai, anthropic, _ = servers
    home = {"HOME": str(tmp_path / "nobody"), "OPENAI_API_KEY": OPENAI}
    reply, _ = await ask(tmp_path / "w", environment(servers, tmp_path / "home") | home, provider="anthropic")
    assert reply.error_code == "secret_unavailable"
    assert reply.message == (
        "The secret llm/anthropic@1 has no value: set LLM_API_KEY or ANTHROPIC_API_KEY in the environment, "
        "or run `demiurge secrets set llm/anthropic`."
    )
    assert openai.seen == anthropic.seen == []


async def test_an_address_that_wants_a_key_and_got_none_says_which_one_goes_there(servers: Any, tmp_path: Path) -> None:
    *_, somebody = servers
    somebody.status = 401
    environ = environment(servers, tmp_path / "home", **KEYS)
    reply, _ = await ask(tmp_path / "w", environ, provider="openai-chat", base_url=f"{somebody.url}/v1")
    assert reply.error_code == "authentication"
    assert "LLM_API_KEY" in reply.message
    assert somebody.canaries == set()


async def test_a_chat_that_began_with_one_provider_goes_on_with_another(servers: Any, tmp_path: Path) -> None:
    openai, anthropic, _ = servers
    environ = environment(servers, tmp_path / "home", **KEYS)
    for provider in ("openai-responses", "anthropic", "openai-chat"):
        reply, _ = await ask(tmp_path / "w", environ, provider=provider)
        assert reply.status == "done"
    [message] = anthropic.bodies
    assert [entry["role"] for entry in message["messages"]] == ["user", "assistant", "user"]
    roles = [entry["role"] for entry in openai.bodies[1]["messages"]]
    assert roles == ["system", *("user", "assistant") * 2, "user"]
    assert (openai.canaries, anthropic.canaries) == ({OPENAI}, {ANTHROPIC})


# -- receipts ---------------------------------------------------------------------------------------------------------


async def test_the_receipt_has_the_ids_and_the_cost_that_a_proxy_gives(servers: Any, tmp_path: Path) -> None:
    *_, proxy = servers
    proxy.headers = {"x-litellm-call-id": "call-1", "x-litellm-response-cost": "0.0201", "x-request-id": "req-1"}
    environ = {"HOME": str(tmp_path), "LLM_API_KEY": GENERAL}
    chosen = {"provider": "openai-chat", "base_url": f"{proxy.url}/v1", "model": "gpt-5"}
    reply, usage = await ask(tmp_path / "w", environ, **chosen)
    assert reply.cost_cents == 3
    assert usage == {
        "prompt": 7,
        "completion": 2,
        "cached": 0,
        "cache_written": 0,
        "reasoning": 0,
        "model": "gpt-5",
        "cost_micros": 20_100,
        "cost_usd": "0.0201",
        "cost_source": "provider",
        "raw_finish_reason": "stop",
        "response_id": "c_1",
        "request_id": "req-1",
        "call_id": "call-1",
        "prompt_hash": usage["prompt_hash"],
    }
    proxy.headers = {}
    _, usage = await ask(tmp_path / "w", environ, **chosen)
    assert [usage[name] for name in ("cost_micros", "cost_usd", "cost_source", "call_id")] == [None] * 4
    assert all("previous_response_id" not in body for body in proxy.bodies)
