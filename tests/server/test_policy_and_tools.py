"""`GET /api/policy/explain` and `GET /api/tools`: decisions and their reasons."""

from __future__ import annotations

from tests.server.conftest import POLICY, Served
from tests.shell.steps import ask_for_order


async def test_a_decision_on_a_tool_is_explained(served: Served) -> None:
    viewer = await served.client("viewer")
    explained = (await viewer.get("/api/policy/explain", params={"tool": "order_part"})).json()
    assert explained["decision"] == "require_approval"
    assert explained["why"] == "its effect is among require_approval_for_effects"
    assert explained["caller"]["roles"] == ["viewer"]
    other = await viewer.get("/api/policy/explain", params={"tool": "order_part", "role": "chief", "actor": "ada"})
    assert other.json()["caller"] == {"actor": "ada", "tenant": None, "roles": ["chief"]}


async def test_decisions_on_an_effect_are_explained(served: Served) -> None:
    user = await served.client()
    explained = (await user.get("/api/policy/explain", params={"effect": "llm.generate"})).json()
    assert explained["cap_type"] == "llm.basic"
    allowed = {each["origin"]["name"]: each["decision"] for each in explained["decisions"]}
    plans = ("chat_plan", "model_run_plan", "sampling_plan", "title_plan")
    assert allowed == {f"demiurge/{plan}@1": "allow" for plan in plans}
    who = {"effect": "workspace.commit", "origin": "tool", "name": "workspace__write"}
    [asked] = (await user.get("/api/policy/explain", params=who)).json()["decisions"]
    assert asked["origin"] == {"kind": "tool", "name": "workspace__write"}
    for query, status in (
        ({"effect": "no.such"}, 404),
        ({"effect": "llm.generate", "origin": "plan", "name": "no/plan@1"}, 404),
        ({"effect": "llm.generate", "tool": "order_part"}, 422),
        ({}, 422),
    ):
        assert (await user.get("/api/policy/explain", params=query)).status_code == status, query


async def test_the_catalog_lists_denied_tools_with_the_reason_when_it_is_asked_for_all(served: Served) -> None:
    user = await served.client()
    offered = (await user.get("/api/tools")).json()
    everything = (await user.get("/api/tools", params={"all": "true"})).json()
    assert {tool["id"] for tool in offered["tools"] if tool["kind"] == "callable"} == set(POLICY.allowed_tools)
    assert everything["tools_ref"] == offered["tools_ref"]
    tools = {tool["id"]: tool for tool in everything["tools"]}
    assert tools["workspace__list"]["decision"] == "deny"
    assert tools["workspace__list"]["why"] == "no line of the policy allows it"
    assert (tools["order_part"]["source"], tools["workspace__list"]["source"]) == ("yours", "shipped")
    assert tools["order_part"] == (await user.get("/api/tools/order_part")).json()


async def test_the_catalog_counts_the_calls_of_each_tool(served: Served) -> None:
    await ask_for_order(served)
    viewer = await served.client("viewer")
    catalog = (await viewer.get("/api/tools", params={"all": True, "uses": True})).json()
    callables = [tool for tool in catalog["tools"] if tool["kind"] == "callable"]
    counted = {tool["id"]: (tool["calls"], tool["last_called_ns"] is not None) for tool in callables}
    assert counted["order_part"] == (1, True)
    assert counted["workspace__write"] == (0, False)
    assert catalog["counted_records"] == (await viewer.get("/api/journal/head")).json()["length"]
    assert (await viewer.get("/api/tools")).json()["counted_records"] is None
