"""`sys/McpServer@1` and `listing_change`: what a listing changes in the cell of a server, and how much it may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.values.caller import USER, Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.mcp_servers import HOST, MAX_FOUND, MAX_UNATTENDED, listing_change, mcp_server_reducer, shown_pin
from demiurge.world.record import Stamp
from demiurge.world.reducer import ReducerContext

SAID = ref_of(b"listing")


def pin(text: str) -> Ref:
    return ref_of(text.encode())


class Server:
    """A cell, and the steps that it takes."""

    def __init__(self) -> None:
        self.cell: dict[str, Any] | None = None
        self.take("Add", settings="{}")

    def take(self, tag: str, caller: Caller = USER, **value: Any) -> None:
        stamp = Stamp(5, b"entropy", caller, ref_of(b"manifest"))
        context = ReducerContext(stamp, "shop", "external", {}, lambda _tool: "allow", {}, 0)
        event = {"$tag": tag, "$value": {"server": "shop", **value}}
        step = mcp_server_reducer().reduce(self.cell, event, context)
        self.cell = None if step.delete else {"listing_ref": None, **(self.cell or {}), **step.set}

    @property
    def state(self) -> Mapping[str, Any]:
        assert self.cell is not None
        return self.cell

    def list(self, pins: Mapping[str, Ref], caller: Caller = HOST) -> dict[str, Any] | None:
        change = listing_change(self.state, SAID, pins, attended=caller is not HOST)
        if change is not None:
            self.take("Listing", caller, **change)
        return change

    def trust(self, *tools: str, caller: Caller = USER) -> None:
        pins = {tool: shown_pin(self.state, tool) for tool in tools}
        self.take("Trust", caller, tools=pins, rule="ask", effect=None, public=[])


def test_a_listing_is_noted_only_if_it_differs() -> None:
    server = Server()
    assert server.list({"a": pin("1")}) == {"listing_ref": SAID, "tools": {"a": pin("1")}, "gone": []}
    assert server.list({"a": pin("1")}) is None
    server.trust("a")
    assert server.list({"a": pin("1")}) is None
    assert server.list({}) == {"listing_ref": SAID, "tools": {}, "gone": ["a"]}
    assert server.list({}) is None
    assert server.list({"a": pin("1")}) is not None
    assert server.state["tools"]["a"]["quarantined"] is None


def test_a_drift_is_quarantined_and_stays_so_when_the_server_goes_back() -> None:
    server = Server()
    server.list({"a": pin("1")})
    server.trust("a")
    server.list({"a": pin("2")})
    server.list({"a": pin("1")})
    assert server.state["tools"]["a"]["quarantined"] == {"pin": pin("1"), "at": 5}
    server.trust("a")
    assert server.state["tools"]["a"]["quarantined"] is None


def test_trust_is_in_what_was_listed_last_and_in_nothing_else() -> None:
    server = Server()
    server.list({"a": pin("1")})
    before = dict(server.state)
    with pytest.raises(InvalidValue, match="another definition"):
        server.take("Trust", tools={"a": pin("2")}, rule="ask", effect=None, public=[])
    with pytest.raises(InvalidValue, match="another definition"):
        server.take("Trust", tools={"unheard of": pin("1")}, rule="ask", effect=None, public=[])
    with pytest.raises(InvalidValue, match="ask, allow"):
        server.take("Trust", tools={"a": pin("1")}, rule="always", effect=None, public=[])
    assert server.state == before


def test_listings_that_nobody_asked_for_are_noted_up_to_a_limit() -> None:
    server = Server()
    server.list({"a": pin("1"), "b": pin("1")})
    server.trust("a")
    noted = sum(server.list({"a": pin("1"), "b": pin(f"{number}")}) is not None for number in range(2, 200))
    assert noted == MAX_UNATTENDED
    assert server.list({"a": pin("2"), "b": pin("x")}) == {"listing_ref": SAID, "tools": {"a": pin("2")}, "gone": []}
    assert server.list({"a": pin("3"), "b": pin("x")}) is None
    assert server.list({"a": pin("3"), "b": pin("x")}, USER) is not None
    assert shown_pin(server.state, "a") == pin("3")
    assert server.state["unattended"] == 0


def test_a_flood_of_tools_is_cut() -> None:
    server = Server()
    server.list({f"t{number:05}": pin("1") for number in range(5 * MAX_FOUND)})
    assert len(server.state["found"]) == MAX_FOUND
    assert server.list({f"t{number:05}": pin("1") for number in range(5 * MAX_FOUND)}) is None
    server.trust("t00000")
    assert server.list({f"t{number:05}": pin("1") for number in range(5 * MAX_FOUND)}) is not None
    assert len(server.state["found"]) == MAX_FOUND


@pytest.mark.parametrize("roles", [("agent",), ("approver", "chief"), ()])
def test_only_a_user_changes_a_server(roles: tuple[str, ...]) -> None:
    server, stranger = Server(), replace(USER, roles=roles)
    server.list({"a": pin("1")})
    for tag, value in (("Remove", {}), ("Untrust", {"tools": []}), ("Listing", {"listing_ref": None})):
        with pytest.raises(InvalidValue, match="only a user"):
            server.take(tag, stranger, **value)
    with pytest.raises(InvalidValue, match="only a user"):
        server.trust("a", caller=stranger)


def test_a_removed_server_ignores_what_still_comes() -> None:
    server = Server()
    server.list({"a": pin("1")})
    server.take("Remove")
    assert server.cell is None
    before = mcp_server_reducer().source
    assert before.startswith(b'"""The module `sys/McpServer@1`')
