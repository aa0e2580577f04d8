"""A provider of servers' tools, apart from servers: what each listing makes of its tools, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.errors import InvalidValue, NotFound, Unavailable
from demiurge.mcp import Listing, McpToolProvider, ServerSettings, ToolDefinition, Trust, difference
from demiurge.mcp.tool import effect_that_counts, quarantined_tool, server_tool
from demiurge.tools import Redaction, ToolEffect, ToolPolicy, ToolResult, ToolRunner

A, B = (ServerSettings(name, command=("x",)) for name in ("a", "b"))
READS = {"readOnlyHint": True}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
ADD = ToolDefinition("add", "Add", "Adds.", SCHEMA, {"type": "object"}, READS)
SEND = ToolDefinition("send", "Send")
GREET = ToolDefinition("greet", description="Greets.", kind="prompt", arguments=[{"name": "who"}])


def listing(*definitions: ToolDefinition, problems: tuple[str, ...] = ()) -> Listing:
    return Listing(definitions, "2026-07-28", "sample", "1", "", problems)


class Clients:
    """Clients of servers whose listings are `lists`; an error is raised in place of one. `called`: each call."""

    def __init__(self, **lists: Any) -> None:
        self.lists, self.called, self.closed = lists, list[Any](), False
        self.on_listing: Any = None

    async def list_tools(self, settings: ServerSettings) -> Listing:
        found = self.lists[settings.name]
        if isinstance(found, Exception):
            raise found
        await self.on_listing(settings.name, found)
        listed: Listing = found
        return listed

    async def call(self, *arguments: Any, **more: Any) -> ToolResult[Any]:
        self.called.append((*arguments, more))
        return ToolResult("done")

    async def close(self) -> None:
        self.closed = True


def provider(clients: Any = None, servers: Any = A, **more: Any) -> McpToolProvider:
    used: Any = clients or Clients(a=listing())
    return McpToolProvider(servers, clients=used, **{"trust": {}, **more})


def states(tools: McpToolProvider) -> list[tuple[str, bool]]:
    return [(spec.name, spec.quarantined) for spec in tools.specs()]


@pytest.mark.parametrize(
    ("servers", "trust", "problem", "code"),
    [
        (
            [A, ServerSettings("A", command=("x",))],
            {},
            "servers: two servers have names that read alike",
            "tool_id_collision",
        ),
        ([A], {"b": {}}, "trust: no server has the name 'b'", "invalid_value"),
        (
            [A],
            {"a": ["add"]},
            "trust: a name without a pin needs 'confirm', which is shown the definition",
            "invalid_value",
        ),
        ([A], {"a": "add"}, "trust: the tools of a server are a list or a mapping", "invalid_value"),
    ],
)
def test_servers_and_trust_of_another_form_are_refused(servers: Any, trust: Any, problem: str, code: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        provider(None, servers, trust=trust)
    assert (str(refused.value), refused.value.code) == (problem, code)


async def test_only_a_trusted_definition_is_a_tool_with_words() -> None:
    clients = Clients(a=listing(SEND, ADD), b=listing(ADD))
    trust = {"a": {"add": Trust(ADD.pin, ToolEffect.STATE_CHANGE, Redaction.allow("n")), "send": "sha256:other"}}
    async with provider(clients, [B, A], trust=trust) as tools:
        assert states(tools) == [("mcp__b__add", True), ("mcp__a__add", False), ("mcp__a__send", True)]
        assert (tools.listing("a"), tools.listing("c"), tools.problems) == (clients.lists["a"], None, {})
        add = tools.get("mcp__a__add")
        assert add is not None
        assert (add.spec.effect, add.spec.redaction) == (ToolEffect.STATE_CHANGE, Redaction.allow("n"))
        assert tools.get("mcp__a__other") is None
        assert tools.changes("a", "send") == difference(None, SEND)
        assert tools.changes("a", "add") == []
        for server, tool in (("a", "other"), ("c", "add")):
            with pytest.raises(NotFound) as missing:
                tools.changes(server, tool)
            assert missing.value.message == f"The server {server!r} lists no tool {tool!r}."
        for redaction in (Redaction.allow("n"), Redaction()):
            tools.trust("a", "add", ADD.pin, redaction=redaction)
            runner = ToolRunner(tools, policy=ToolPolicy(("mcp__a__add",)))
            assert (await runner.exec("mcp__a__add", {"q": "x"})).ok
        assert [(*call[:3], *call[4:]) for call in clients.called] == [
            (A, ADD, {"q": "x"}, ToolEffect.READ_ONLY, {"shows_progress": False}),
            (A, ADD, {"q": "x"}, ToolEffect.READ_ONLY, {"shows_progress": True}),
        ]
    assert clients.closed


async def test_a_changed_definition_is_quarantined_until_it_is_trusted_also_if_it_changes_back() -> None:
    changed = ToolDefinition("add", "Add", "Adds more.", SCHEMA, {"type": "object"}, READS)
    clients = Clients(a=listing(ADD))
    tools = provider(clients, trust={"a": {"add": ADD.pin}})
    await tools.refresh()
    assert states(tools) == [("mcp__a__add", False)]
    clients.lists["a"] = listing(changed)
    await tools.refresh("a")
    assert states(tools) == [("mcp__a__add", True)]
    assert tools.changes("a", "add") == difference(ADD, changed)
    with pytest.raises(InvalidValue) as refused:
        tools.trust("a", "add", ADD.pin)
    assert (str(refused.value), refused.value.code) == (
        "pin: the server lists another definition of this tool",
        "pin_mismatch",
    )
    clients.lists["a"] = listing(ADD)
    await tools.refresh()
    assert states(tools) == [("mcp__a__add", True)]
    tools.trust("a", "add", ADD.pin, effect=ToolEffect.STATE_CHANGE, redaction=Redaction.allow("n"))
    [spec] = tools.specs()
    assert (spec.quarantined, spec.effect, spec.redaction) == (False, ToolEffect.STATE_CHANGE, Redaction.allow("n"))
    clients.lists["a"] = listing()
    await tools.refresh()
    assert states(tools) == [("mcp__a__add", False)]  # its server says that it is gone when it is called
    with pytest.raises(InvalidValue):
        tools.trust("a", "add", ADD.pin)


async def test_a_tool_that_nobody_trusts_is_forgotten_with_its_name() -> None:
    clients = Clients(a=listing(SEND))
    tools = provider(clients)
    await tools.refresh()
    assert states(tools) == [("mcp__a__send", True)]
    clients.lists["a"] = listing(ToolDefinition("Send"))
    await tools.refresh()
    assert (states(tools), tools.problems) == ([("mcp__a__Send", True)], {})
    assert tools.get("mcp__a__send") is None


async def test_problems_are_sentences_about_each_server() -> None:
    alike = ToolDefinition("Send")
    bad = ToolDefinition("bad", input_schema={"type": "object", "properties": {"x": {"type": 3}}})
    clients = Clients(a=listing(SEND, alike, problems=("One.", "Two.")), b=Unavailable("It is away."))
    async with provider(clients, [A, B], trust={"a": {"bad": bad.pin}}) as tools:
        told = "One. Two. The tool 'Send' of the server 'a' reads like its tool 'send'."
        assert tools.problems == {"a": told, "b": "It is away."}
        assert states(tools) == [("mcp__a__send", True)]
        clients.lists.update(a=listing(SEND), b=listing(SEND))
        await tools.refresh("a")
        assert tools.problems == {"b": "It is away."}
        await tools.refresh()
        assert tools.problems == {}
        clients.lists["a"] = listing(bad)
        await tools.refresh("a")
        assert set(tools.problems) == {"a"}
        assert tools.get("mcp__a__bad") is None


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(("answer", "is_trusted"), [(True, True), (False, False), ("yes", False)])
async def test_a_name_alone_is_confirmed_once(is_async: bool, answer: Any, is_trusted: bool) -> None:
    shown: list[Any] = []

    async def later() -> Any:
        return answer

    def confirm(server: str, definition: ToolDefinition) -> Any:
        shown.append((server, definition))
        return later() if is_async else answer

    clients = Clients(a=listing(ADD, SEND))
    async with provider(clients, trust={"a": ["add"]}, confirm=confirm) as tools:
        await tools.refresh()
        assert states(tools) == [("mcp__a__add", not is_trusted), ("mcp__a__send", True)]
    assert shown == [("a", ADD)]


async def test_a_call_of_a_tool_goes_to_its_server_with_the_stricter_level() -> None:
    clients: Any = Clients()
    bound = server_tool(clients, A, ADD, effect=ToolEffect.STATE_CHANGE, trust="ask", quarantined=True)
    spec = bound.spec
    assert (spec.name, spec.description, spec.input_schema) == ("mcp__a__add", "Adds.", SCHEMA)
    assert (spec.effect, spec.redaction) == (ToolEffect.STATE_CHANGE, Redaction.drop_all())
    assert (spec.untrusted, spec.quarantined, bound.trust, spec.mcp_item) == (True, True, "ask", None)
    assert dict(spec.mcp_listing or {}) == {
        "title": "Add",
        "description": "Adds.",
        "outputSchema": {"type": "object"},
        "annotations": READS,
    }
    prompt = server_tool(clients, A, GREET)
    assert (prompt.spec.effect, prompt.spec.untrusted, prompt.spec.quarantined) == (ToolEffect.READ_ONLY, True, False)
    assert prompt.spec.mcp_listing is None
    assert dict(prompt.spec.mcp_item or {}) == {
        "server": "a",
        "name": "greet",
        "description": "Greets.",
        "kind": "prompt",
        "arguments": [{"name": "who"}],
    }
    assert server_tool(clients, A, SEND).spec.description == "Send"


@pytest.mark.parametrize(
    ("hints", "effect", "counts"),
    [
        (None, None, ToolEffect.EXTERNAL_SIDE_EFFECT),
        (None, ToolEffect.READ_ONLY, ToolEffect.READ_ONLY),
        (READS, None, ToolEffect.READ_ONLY),
        (READS, ToolEffect.STATE_CHANGE, ToolEffect.STATE_CHANGE),
        ({"readOnlyHint": False}, ToolEffect.READ_ONLY, ToolEffect.EXTERNAL_SIDE_EFFECT),
    ],
)
def test_the_stricter_level_counts(hints: Any, effect: ToolEffect | None, counts: ToolEffect) -> None:
    assert effect_that_counts(ToolDefinition("x", annotations=hints), effect) is counts


def test_a_quarantined_tool_has_no_word_of_its_server() -> None:
    spec = quarantined_tool("a", "prompt:greet").spec
    assert (spec.description, spec.input_schema, spec.redaction) == ("", {"type": "object"}, Redaction.drop_all())
    assert (spec.untrusted, spec.quarantined, spec.effect) == (True, True, ToolEffect.EXTERNAL_SIDE_EFFECT)
    assert spec.name.startswith("mcp__a__prompt_greet_")
