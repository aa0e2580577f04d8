"""Policy is data, closed and denying."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue, NotFound
from demiurge.tools import Budgets, ToolEffect, ToolPolicy, ToolPolicyContext

CTX = ToolPolicyContext(run_id="r", actor="user:1")
READ, CHANGE, OUTSIDE = ToolEffect.READ_ONLY, ToolEffect.STATE_CHANGE, ToolEffect.EXTERNAL_SIDE_EFFECT


def test_not_listed_is_denied() -> None:
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
def test_load(tmp_path: Path, name: str) -> None:
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


def test_load_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        ToolPolicy.load(tmp_path / "none.toml")
