"""Policy is data, closed and denying."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue, NotFound
from demiurge.tools import Allowance, Budgets, ToolEffect, ToolPolicy, ToolPolicyContext
from demiurge.values import canonical_json
from demiurge.values.refs import ref_of

CTX = ToolPolicyContext(run_id="r", actor="user:1")
READ, CHANGE, OUTSIDE = ToolEffect.READ_ONLY, ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT


def test_a_tool_that_the_policy_does_not_list_is_denied() -> None:
    assert ToolPolicy().decide(CTX, "a", READ) == "deny"
    assert ToolPolicy(("a",)).decide(CTX, "b", READ) == "deny"
    assert ToolPolicy(("a",)).decide(CTX, "a", OUTSIDE) == "allow"


def test_approval_by_effect_and_by_tool() -> None:
    policy = ToolPolicy(("a", "b"), (CHANGE,), require_approval_for_tools=("b", "c"))
    assert policy.decide(CTX, "a", READ) == "allow"
    assert policy.decide(CTX, "a", CHANGE) == "require_approval"
    assert policy.decide(CTX, "b", READ) == "require_approval"
    assert policy.decide(CTX, "c", READ) == "deny"
    assert policy.rule_digest("a", CHANGE) != policy.rule_digest("b", READ)


def test_a_dotted_id_is_the_same_id() -> None:
    assert ToolPolicy(("workspace.read",)).decide(CTX, "workspace__read", READ) == "allow"


IDS = st.lists(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), max_size=5)


@given(IDS, IDS, st.lists(st.sampled_from(list(ToolEffect))), st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_order_and_json_round_trips(
    allowed: list[str], asking: list[str], effects: list[ToolEffect], random: Any
) -> None:
    budgets = Budgets(max_runtime_ms=5)
    policy = ToolPolicy(tuple(allowed), tuple(effects), budgets, tuple(asking))
    random.shuffle(allowed)
    random.shuffle(effects)
    other = ToolPolicy(tuple(allowed * 2), tuple(effects), budgets, tuple(reversed(asking)))
    assert policy.digest == other.digest
    again = ToolPolicy.from_json(json.loads(json.dumps(policy.to_json())))
    assert again.digest == policy.digest


FILES = {
    "p.toml": """
allowed_tools = ["a"]
require_approval_for_effects = ["state_change"]
[budgets]
max_runtime_ms = 10
""",
    "p.yaml": """
allowed_tools: [a]
require_approval_for_effects: [state_change]
budgets: {max_runtime_ms: 10}
""",
    "p.json": """
{"allowed_tools": ["a"], "require_approval_for_effects": ["state_change"], "budgets": {"max_runtime_ms": 10}}
""",
}


@pytest.mark.parametrize("name", FILES)
def test_a_policy_is_loaded_from_each_file_format(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    expected = ToolPolicy(("a",), (CHANGE,), Budgets(max_runtime_ms=10))
    assert ToolPolicy.load(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"allowed_tools": ["a"], "allow_all": true}'),
        ("p.json", '{"allowed_tools": ["a"], "allowed_tools": []}'),
        ("p.json", '{"allowed_tools": "a"}'),
        ("p.json", '{"allowed_tools": [1]}'),
        ("p.json", '{"allowed_tools": ["a b"]}'),
        ("p.json", '{"allowed_tools": ["*"]}'),
        ("p.json", '{"allowed_tools": [], "require_approval_for_effects": ["writes"]}'),
        ("p.json", '{"allowed_tools": [], "budgets": {"max_runtime_ms": 0}}'),
        ("p.json", '{"allowed_tools": [], "budgets": {"max_runtime_ms": true}}'),
        ("p.json", '{"allowed_tools": [], "budgets": {"seconds": 1}}'),
        ("p.json", '{"allowed_tools": [], "budgets": null}'),
        ("p.json", "{}"),
        ("p.json", "[]"),
        ("p.json", "{"),
        ("p.yaml", "allowed_tools: [a]\nallowed_tools: [b]\n"),
        ("p.yaml", "allowed_tools: [a\n"),
        ("p.yaml", "- a\n"),
        ("p.yml", "allowed_tools: !!python/object/apply:os.getcwd []\n"),
        ("p.toml", "allowed_tools = [a]\n"),
        ("p.txt", "allowed_tools: [a]\n"),
        ("p.yaml", "? [a, b]\n: 1\n"),
        ("p.yaml", "? {a: b}\n: 1\n"),
        ("p.yaml", "1: [a]\n"),
        ("p.yaml", "allowed_tools: !!int x\n"),
        ("p.yaml", "allowed_tools: !!bool x\n"),
        ("p.yaml", "allowed_tools: !!timestamp x\n"),
        ("p.yaml", "allowed_tools: &loop [*loop]\n"),
        ("p.yaml", "[" * 5000),
        ("p.json", "[" * 100_000),
        ("p.toml", "allowed_tools = " + "[" * 5000),
    ],
)
def test_load_refuses_what_it_does_not_know(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidValue) as caught:
        ToolPolicy.load(tmp_path / name)
    assert str(tmp_path / name) in caught.value.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"allowed_tools": [], "budgets": {"max_runtime_ms": 1, "max_runtime_ms": 2}}'),
        ("p.yaml", "allowed_tools: []\nbudgets:\n  max_runtime_ms: 1\n  max_runtime_ms: 2\n"),
        ("p.yaml", "allowed_tools: []\nmax_runtime_ms: 1\n"),
        ("p.json", '{"allowed_tools": [], "budgets": {"max_runtime_ms": "1"}}'),
    ],
)
def test_an_error_names_the_key_and_the_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidValue, match="max_runtime_ms") as caught:
        ToolPolicy.load(tmp_path / name)
    assert name in caught.value.message
    assert caught.value.path in ("", "budgets.max_runtime_ms")


@pytest.mark.parametrize("name", FILES)
def test_a_byte_order_mark_is_no_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name], encoding="utf-8-sig")
    assert ToolPolicy.load(tmp_path / name).allowed_tools == ("a",)


def test_loading_a_missing_policy_file_raises_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        ToolPolicy.load(tmp_path / "none.toml")


def refusal(make: Any) -> tuple[str, str]:
    """The place and the sentence of what is refused."""
    with pytest.raises(InvalidValue) as caught:
        make()
    return caught.value.path or "", caught.value.message


# The rule that decides


@pytest.mark.parametrize(
    ("tool_id", "effect", "rule"),
    [
        ("free", READ, {"rule": "allowed_tools", "tool": "free"}),
        ("free", CHANGE, {"rule": "require_approval_for_effects", "effect": "state_change"}),
        ("asked", READ, {"rule": "require_approval_for_tools", "tool": "asked"}),
        ("asked", CHANGE, {"rule": "require_approval_for_tools", "tool": "asked"}),
        ("free", OUTSIDE, {"rule": "allowed_tools", "tool": "free"}),
    ],
)
def test_the_rule_that_decides_is_named(tool_id: str, effect: ToolEffect, rule: dict[str, str]) -> None:
    policy = ToolPolicy(("free", "asked"), (CHANGE,), require_approval_for_tools=("asked",))
    assert policy.rule(tool_id, effect) == rule
    assert policy.rule_digest(tool_id, effect) == ref_of(canonical_json.encode(rule))
    asks = policy.decide(CTX, tool_id, effect) == "require_approval"
    assert asks == (rule["rule"] != "allowed_tools")


def test_an_approval_is_of_one_rule() -> None:
    policy = ToolPolicy(("a", "b"), (CHANGE, OUTSIDE), require_approval_for_tools=("a", "b"))
    by_effect = ToolPolicy(("a", "b"), (CHANGE, OUTSIDE))
    digests = {
        policy.rule_digest("a", CHANGE),
        policy.rule_digest("b", CHANGE),
        by_effect.rule_digest("a", CHANGE),
        by_effect.rule_digest("a", OUTSIDE),
    }
    assert len(digests) == 4
    assert by_effect.rule_digest("a", CHANGE) == by_effect.rule_digest("b", CHANGE)


# Limits


def budgets(given: dict[str, Any]) -> Budgets:
    return Budgets(**given)


@pytest.mark.parametrize("name", ["max_runtime_ms", "max_result_bytes"])
def test_a_budget_is_a_whole_number_from_1_on(name: str) -> None:
    for value in (1, 2, 10**12, None):
        assert getattr(budgets({name: value}), name) == value
    for wrong in (0, -1, 1.0, True, "1"):
        expected = (f"budgets.{name}", f"budgets.{name}: a budget is a whole number of at least 1")
        assert refusal(lambda wrong=wrong: budgets({name: wrong})) == expected


@pytest.mark.parametrize("name", ["run", "unit"])
def test_a_share_is_an_allowance(name: str) -> None:
    share = Allowance(max_total_tokens=5)
    assert getattr(budgets({name: share}), name) is share
    assert budgets({name: share}).to_json()[name] == share.to_json()
    assert Budgets.from_json({name: share.to_json()}) == budgets({name: share})
    assert Budgets.from_json({name: None}) == Budgets()
    assert refusal(lambda: budgets({name: {"max_total_tokens": 5}})) == (
        f"budgets.{name}",
        f"budgets.{name}: must be an Allowance",
    )
    assert refusal(lambda: Budgets.from_json({name: {"max_total_tokens": -1}}))[0] == f"budgets.{name}.max_total_tokens"
    path, message = refusal(lambda: Budgets.from_json({name: 3}))
    assert path == f"budgets.{name}"
    assert message.startswith(f"budgets.{name}: ")


def test_the_complaint_about_a_share_names_its_place_once() -> None:
    _, own = refusal(lambda: Allowance.from_json({"max_total_tokens": -1}))
    _, message = refusal(lambda: Budgets.from_json({"run": {"max_total_tokens": -1}}))
    assert message == f"budgets.run.{own}"


def test_a_unit_has_no_time() -> None:
    timed = Allowance(max_wall_ms=5)
    assert Budgets(run=timed, unit=Allowance(max_total_tokens=1)).run is timed
    place = "budgets.unit.max_wall_ms"
    assert refusal(lambda: Budgets(unit=timed)) == (
        place,
        f"{place}: a unit never ends, so its time cannot be limited; remove max_wall_ms",
    )


# What a policy may say


LISTS = ("allowed_tools", "require_approval_for_effects", "require_approval_for_tools")


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("read_only", "must be a list"),
        (b"read_only", "must be a list"),
        ({"read_only": 1}, "must be a list"),
        (3, "must be a list"),
        (None, "must be a list"),
        ([1], "must hold only names"),
        (["read_only", None], "must hold only names"),
    ],
)
def test_a_list_of_names_is_one(name: str, value: Any, words: str) -> None:
    given = {"allowed_tools": (), name: value}
    assert refusal(lambda: ToolPolicy(**given)) == (name, f"{name}: {words}")


@pytest.mark.parametrize("name", ["allowed_tools", "require_approval_for_tools"])
@pytest.mark.parametrize("wrong", ["", "a b", "a/b", "x" * 65])
def test_a_tool_id_that_can_not_be_is_refused(name: str, wrong: str) -> None:
    long: dict[str, Any] = {name: ("x" * 64,)}
    given: dict[str, Any] = {name: ("a", wrong)}
    assert getattr(ToolPolicy(**long), name) == ("x" * 64,)
    words = f"{name}: a tool id is 1 to 64 letters, digits, '_' or '-'"
    assert refusal(lambda: ToolPolicy(**given)) == (name, words)


def test_an_effect_that_can_not_be_is_refused() -> None:
    words = "require_approval_for_effects: an effect is one of external_side_effect, read_only, state_change"
    wrong: Any = ("state_change", "write")
    assert refusal(lambda: ToolPolicy((), wrong)) == ("require_approval_for_effects", words)


def test_budgets_are_budgets() -> None:
    wrong: Any = {"max_runtime_ms": 5}
    assert refusal(lambda: ToolPolicy((), (), wrong)) == ("budgets", "budgets: must be a Budgets")


def test_names_may_come_in_a_set() -> None:
    for made in (set, frozenset, list, tuple):
        names: Any = made([*"hgfedcb", "a"])
        effects: Any = made(["state_change", "read_only"])
        policy = ToolPolicy(names, effects, require_approval_for_tools=names)
        ordered = tuple("hgfedcba") if made in (list, tuple) else tuple("abcdefgh")
        assert policy.allowed_tools == policy.require_approval_for_tools == ordered
        assert set(policy.require_approval_for_effects) == {READ, CHANGE}


@pytest.mark.parametrize(
    ("data", "path", "words"),
    [
        ([], "", "must be an object"),
        ({}, "allowed_tools", "allowed_tools: is required (an empty list allows nothing)"),
        (
            {"allowed_tools": [], "tools": []},
            "",
            "unknown key 'tools'; known: allowed_tools, approvers, budgets, require_approval_for_effects,"
            " require_approval_for_tools, rules, when_tainted",
        ),
        ({"allowed_tools": [], "budgets": 3}, "budgets", "budgets: must be an object"),
        (
            {"allowed_tools": [], "budgets": {"b": 1, "a": 1}},
            "budgets",
            "budgets: unknown key 'a'; known: max_result_bytes, max_runtime_ms, run, unit",
        ),
    ],
)
def test_an_unknown_or_missing_key_of_a_policy_is_refused_with_its_path(data: Any, path: str, words: str) -> None:
    assert refusal(lambda: ToolPolicy.from_json(data)) == (path, words)


def test_a_file_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=rf"There is no policy file {re.escape(str(tmp_path))}/none.toml\."):
        ToolPolicy.load(tmp_path / "none.toml")
    with pytest.raises(InvalidValue, match=rf"The policy file {re.escape(str(tmp_path))} can't be read: Is"):
        ToolPolicy.load(tmp_path)
    (tmp_path / "p.json").write_text('{"allowed_tools": 3}')
    with pytest.raises(InvalidValue, match=r"The policy file .*p\.json: allowed_tools: must be a list") as caught:
        ToolPolicy.load(tmp_path / "p.json")
    assert (caught.value.path, caught.value.code) == ("allowed_tools", InvalidValue.code)
