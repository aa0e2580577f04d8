"""Which tools the requests of a message describe, and which are found on demand."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.bootstrap.offered_tools import MOST_TOKENS, OfferedTools, offered_tools, tokens_of
from demiurge.bootstrap.shipped_tools import PACK_IDS, SHIPPED_TOOLS
from demiurge.errors import InvalidValue
from demiurge.registry.catalog_text import PROMPT_TOOL
from demiurge.registry.catalog_tools import PROPOSE_TOOL
from demiurge.tools import ToolSpec
from demiurge.tools.ids import FIND_TOOLS, READ_RESULT

SHIPPED = [tool.spec for tool in SHIPPED_TOOLS]
INTROSPECT = {spec.name for spec in SHIPPED if spec.name.startswith("introspect__")}


def spec(name: str, tokens: int) -> ToolSpec:
    made = ToolSpec(name, "", {"type": "object"})
    return ToolSpec(
        name, "x" * (4 * (tokens - tokens_of(made))), {"type": "object"}, untrusted=name.startswith("mcp__")
    )


def offered(own: list[ToolSpec], settings: dict[str, Any] | None = None, **given: bool) -> OfferedTools:
    terms = {"has_catalog": False, "has_large_results": False} | given
    return offered_tools([*SHIPPED, *own], settings or {}, **terms)


def described(found: OfferedTools) -> set[str]:
    return {spec.name for spec in found.described}


def test_own_tools_are_described_and_the_core_pack_is_found_on_demand() -> None:
    found = offered([spec("search_tickets", 100)])
    assert {"search_tickets", FIND_TOOLS, "workspace__read"} <= described(found)
    assert {*found.deferred} == PACK_IDS | INTROSPECT | {PROPOSE_TOOL}
    assert not described(found) & {*found.deferred, PROMPT_TOOL, READ_RESULT}


def test_the_largest_servers_are_deferred_until_the_rest_is_small() -> None:
    own = [spec("mine", 900)]
    servers = [spec("mcp__large__a", 1500), spec("mcp__large__b", 1500), spec("mcp__small__a", 800)]
    found = offered([*own, *servers])
    assert {"mcp__large__a", "mcp__large__b"} <= {*found.deferred}
    assert {"mine", "mcp__small__a"} <= described(found)


def test_own_tools_are_deferred_last() -> None:
    own = [spec("mine", MOST_TOKENS + 1), spec("mcp__small__a", 5)]
    assert {"mine", "mcp__small__a"} <= {*offered(own).deferred}
    exactly = offered([spec("mine", MOST_TOKENS)])
    assert "mine" in described(exactly)


def test_off_describes_all_but_the_core_pack() -> None:
    found = offered([spec("mine", 2 * MOST_TOKENS)], {"deferred": "off"})
    assert found.deferred == ()
    assert {"mine", *INTROSPECT} <= described(found)
    assert not described(found) & {FIND_TOOLS, PROPOSE_TOOL, *PACK_IDS}


def test_nothing_is_deferred_where_the_policy_does_not_offer_the_search() -> None:
    found = offered_tools([spec("mine", 2 * MOST_TOKENS)], {}, has_catalog=False, has_large_results=False)
    assert (described(found), found.deferred) == ({"mine"}, ())


@pytest.mark.parametrize(
    ("pack", "is_described", "is_deferred"), [("named", False, False), ("offered", True, False), (None, False, True)]
)
def test_the_core_pack_by_its_setting(pack: str | None, is_described: bool, is_deferred: bool) -> None:
    found = offered([], {"core_pack": pack} if pack else {})
    assert described(found) >= PACK_IDS if is_described else not described(found) & PACK_IDS
    assert {*found.deferred} >= PACK_IDS if is_deferred else not {*found.deferred} & PACK_IDS


def test_the_tools_for_the_catalog_come_with_it() -> None:
    assert PROMPT_TOOL in described(offered([], has_catalog=True))
    assert PROPOSE_TOOL in offered([], has_catalog=True).deferred
    skipped = offered([], skips_catalog=True)
    assert not ({*skipped.deferred} | described(skipped)) & {PROMPT_TOOL, PROPOSE_TOOL}
    off = offered([], {"deferred": "off"}, has_catalog=True)
    assert {PROMPT_TOOL, PROPOSE_TOOL} <= described(off)


@pytest.mark.parametrize("settings", [{"deferred": "on"}, {"core_pack": "all"}])
def test_a_setting_that_is_none_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match="is neither"):
        offered([], settings)
