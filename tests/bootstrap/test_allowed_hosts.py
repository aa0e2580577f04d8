"""`World.open(http=...)`: tools may ask these hosts by https, and no others; the guard and the tool policy stay."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from ssl import SSLContext
from subprocess import PIPE, Popen
from typing import Any

import pytest
from tests.bootstrap.test_extension import assert_sound, extension
from tests.bootstrap.test_manifest_of_others import owning
from tests.world.effects.certificates import certificate
from tests.world.effects.servers import Site, http_response, serving_site

from demiurge import ToolContext, World, tool
from demiurge.capabilities.http import guarded
from demiurge.capabilities.http.addresses import refused
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.errors import Conflict, InvalidValue
from demiurge.tools import ToolEffect, ToolPolicy
from demiurge.tools.capabilities import HttpAccess, Introspection
from demiurge.world.effects.http import HttpRequests

HOST = "api.example.com"


@tool(effect=ToolEffect.READ_ONLY)
async def fetch(url: str, method: str, redirects: int, context: ToolContext) -> str:
    """Fetch a page."""
    http = context.resources.get(HttpAccess)
    assert http is not None
    answer = await http.request(method, url, max_redirects=redirects)
    return f"{answer.status} {answer.body.decode()}"


@tool(effect=ToolEffect.READ_ONLY)
async def hosts(context: ToolContext) -> str:
    """List the hosts that tools may ask."""
    found = context.resources.get(Introspection)
    assert found is not None
    return str((await found.manifest()).get("allowed_hosts"))


ALLOWS = ToolPolicy(allowed_tools=("fetch", "hosts"))
NAMES = {HOST: "127.0.0.1", "inside.example.com": "10.0.0.7", "evil.example": "127.0.0.1"}


def trust_this_machine(monkeypatch: pytest.MonkeyPatch, client: SSLContext, names: Mapping[str, str]) -> None:
    """Lets names have these addresses, and 127.0.0.1 count as a public one."""

    async def resolver(name: str, port: int) -> Sequence[str]:
        return [names[name]]

    def bound(_cls: type[HttpRequests], parts: Any) -> HttpRequests:
        return HttpRequests(parts.secrets, parts.clock, GuardedHttp(resolve=resolver, tls=client))

    own = ip_network("127.0.0.1/32")
    monkeypatch.setattr(HttpRequests, "bind", classmethod(bound))
    monkeypatch.setattr(guarded, "refused", lambda address, granted: refused(address, [*granted, own]))


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A server with a certificate for the host."""
    server, client = certificate(HOST, tmp_path)
    trust_this_machine(monkeypatch, client, NAMES)
    answers = {
        "/page": http_response(200, b"hello"),
        "/elsewhere": http_response(302, location="https://evil.example/page"),
        "/plain": http_response(302, location=f"http://{HOST}/page"),
        "/inside": http_response(302, location="https://inside.example.com/page"),
    }
    async with serving_site(answers, tls=server) as running:
        yield running


def opened(folder: Path, http: Sequence[str] | None = None, policy: ToolPolicy | None = ALLOWS, **more: Any) -> World:
    return World.open(folder, [fetch, hosts], policy, environment={"HOME": str(folder.parent)}, http=http, **more)


async def fetched(world: World, url: str, method: str = "GET", redirects: int = 0) -> tuple[str | None, str]:
    called = await world.call("fetch", json.dumps({"url": url, "method": method, "redirects": redirects}))
    return called.error_code, called.message if called.error_code else called.content


async def test_a_tool_asks_an_allowed_host_and_the_request_is_an_effect_of_the_world(
    site: Site, tmp_path: Path
) -> None:
    async with opened(tmp_path / "w", [f"API.example.com.:{site.port}"]) as world:
        code, message = await fetched(world, f"https://{HOST}:{site.port}/page")
        assert (code, "200 hello" in message) == (None, True)
        assert [(seen.method, seen.headers["host"]) for seen in site.asked] == [("GET", f"{HOST}:{site.port}")]
        intents = [r.body["kind"] for r in world.journal.read() if r.kind == "intent"]
        assert intents == ["tool.call", "http.request"]
        assert world.manifest()["allowed_hosts"] == [f"{HOST}:{site.port}"]
        assert f"{HOST}:{site.port}" in (await world.call("hosts", "{}")).content
        await assert_sound(world)
        fork = await world.fork(tmp_path / "f")
    async with opened(Path(fork)) as world:
        assert "allowed_hosts" not in world.manifest(), "whoever opens a fork names its hosts"
        await assert_sound(world)


async def test_the_hosts_of_an_opening_are_those_that_it_names_and_the_log_says_so(site: Site, tmp_path: Path) -> None:
    url = f"https://{HOST}:{site.port}/page"
    async with opened(tmp_path / "w", [f"{HOST}:{site.port}"]) as world:
        assert (await fetched(world, url))[0] is None
    async with opened(tmp_path / "w") as world:
        code, message = await fetched(world, url)
        assert code == "policy_denied"
        assert message.startswith("No tool may make HTTP requests in this world.")
        assert "--allow-host HOST" in message
        changes = [(entry["how"], entry["changed"]) for entry in world.manifest_log()]
        assert changes == [("opened with", None), ("opened with", ["hosts"])]
        await assert_sound(world)
    async with opened(tmp_path / "w", []) as world:
        assert (await fetched(world, url))[0] == "policy_denied"
        assert len(world.manifest_log()) == 2


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example:{port}/page",
        "https://api.example.com.evil.example:{port}/page",
        "https://api.example.com@evil.example:{port}/page",
        "https://evil.example:{port}/api.example.com:{port}/page",
        "https://api.example.com/page",
        "http://api.example.com:{port}/page",
        "https://127.0.0.1:{port}/page",
        "https://xn--api-example-com:{port}/page",
    ],
)
async def test_another_host_is_not_asked(url: str, site: Site, tmp_path: Path) -> None:
    async with opened(tmp_path / "w", [f"{HOST}:{site.port}"]) as world:
        code, message = await fetched(world, url.format(port=site.port))
        assert code == "policy_denied"
        if "@" not in url:
            assert message == f"Requests may go only to these hosts, by https: {HOST}:{site.port}."
        assert site.asked == []
        await assert_sound(world)


@pytest.mark.parametrize("path", ["elsewhere", "plain", "inside"])
async def test_a_redirect_leads_to_no_other_host(path: str, site: Site, tmp_path: Path) -> None:
    async with opened(tmp_path / "w", [f"{HOST}:{site.port}"]) as world:
        assert (await fetched(world, f"https://{HOST}:{site.port}/{path}", redirects=3))[0] == "policy_denied"
        assert [seen.target for seen in site.asked] == [f"/{path}"]
        code, message = await fetched(world, f"https://{HOST}:{site.port}/{path}")
        assert (code, "302" in message) == (None, True), "a redirect that is not followed is an answer"


async def test_a_name_of_an_address_inside_is_refused(site: Site, tmp_path: Path) -> None:
    async with opened(tmp_path / "w", [f"inside.example.com:{site.port}"]) as world:
        assert (await fetched(world, f"https://inside.example.com:{site.port}/page"))[0] == "policy_denied"
        [receipt] = [r.body for r in world.journal.read() if r.kind == "receipt" and r.body["payload"].get("code")]
        assert receipt["payload"]["code"] == "address_refused"
        assert site.asked == []


async def test_the_tool_policy_and_the_effect_level_still_decide(site: Site, tmp_path: Path) -> None:
    url = f"https://{HOST}:{site.port}/page"
    async with opened(tmp_path / "w", [f"{HOST}:{site.port}"], ToolPolicy()) as world:
        assert (await fetched(world, url))[0] == "policy_denied"
    async with opened(tmp_path / "w", [f"{HOST}:{site.port}"]) as world:
        assert (await fetched(world, url, "POST"))[0] == "policy_denied"
    assert site.asked == []


async def test_hosts_do_not_overrule_a_denial_of_the_manifest(site: Site, tmp_path: Path) -> None:
    deny = {"when": {"effect_kind": "http.request", "origin_kind": "tool"}, "decision": "deny"}
    policy = {"$kind": "defpolicy", "name": "ex/policy@1", "rules": [deny]}
    mine = extension(tmp_path / "mine", policy, defaults={"policy": "ex/policy@1"})
    async with opened(tmp_path / "w", [f"{HOST}:{site.port}"], manifest=mine) as world:
        assert (await fetched(world, f"https://{HOST}:{site.port}/page"))[0] == "policy_denied"
        assert site.asked == []


async def test_hosts_beside_a_grant_of_the_manifest_are_refused(tmp_path: Path) -> None:
    grant = {"name": "web", "cap": "sys/http.out@1", "params": {"hosts": [HOST]}}
    mine = extension(tmp_path / "mine", defaults={"cap_grants": [grant]})
    with pytest.raises(Conflict, match="has a grant of HTTP, web, and tools can't choose between two") as told:
        opened(tmp_path / "w", [HOST], manifest=mine)
    assert told.value.code == "http_granted"
    assert not (tmp_path / "w").exists()
    async with opened(tmp_path / "w", [HOST]) as world:
        await world.call("hosts", "{}")
        with pytest.raises(Conflict, match="Add the hosts to that grant"):
            await world.set_manifest(mine)
        assert world.manifest()["allowed_hosts"] == [HOST]
        await world.set_policy(ToolPolicy())
        assert world.manifest()["allowed_hosts"] == [HOST]
        await assert_sound(world)


async def test_wrong_hosts_make_no_world(tmp_path: Path) -> None:
    for wrong in (["https://api.example.com"], HOST, ["localhost"]):
        with pytest.raises(InvalidValue) as told:
            opened(tmp_path / "w", wrong)
        assert told.value.code == "bad_host"
    assert not (tmp_path / "w").exists()


async def test_a_copied_world_does_not_bring_its_hosts(site: Site, tmp_path: Path) -> None:
    async with opened(tmp_path / "w", [f"{HOST}:{site.port}"]) as world:
        assert (await fetched(world, f"https://{HOST}:{site.port}/page"))[0] is None
    shutil.copytree(tmp_path / "w", tmp_path / "copy")
    async with opened(tmp_path / "copy") as world:
        assert "allowed_hosts" not in world.manifest()
        assert (await fetched(world, f"https://{HOST}:{site.port}/page"))[0] == "policy_denied"
        assert len(site.asked) == 1


async def test_a_joined_process_names_the_hosts_of_the_owner_or_none(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with owning(folder):
        environment = {"HOME": str(tmp_path)}
        with pytest.raises(Conflict, match="open with other allowed hosts") as told:
            World.open(folder, environment=environment, http=[HOST])
        assert told.value.code == "owned"
        async with World.open(folder, environment=environment, http=[]) as joined:
            assert not joined.owned


OWNER = """
import asyncio, sys
from pathlib import Path
from tests.bootstrap.test_allowed_hosts import HOST, opened

async def main():
    async with opened(Path(sys.argv[1]), [HOST]) as world:
        await world.call("hosts", "{}")
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def test_a_successor_goes_on_with_the_hosts_of_the_owner_that_it_followed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", OWNER, str(tmp_path / "w")]
    with Popen(words, cwd=Path(__file__).parents[2], stdin=PIPE, stdout=PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "open\n"
        async with opened(tmp_path / "w", policy=None) as joined:
            assert joined.joined
            await joined.set_policy(ToolPolicy(allowed_tools=("hosts",)))
            ref = (await joined.info())["manifest"]
            owner.communicate("")
            assert HOST in (await joined.call("hosts", "{}")).content
            assert (joined.joined, (await joined.info())["manifest"]) == (False, ref)
            await assert_sound(joined)
