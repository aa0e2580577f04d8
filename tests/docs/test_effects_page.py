"""The page of effects names every effect with its cap and its fields, and every cap with its parameters."""

from __future__ import annotations

import re
from pathlib import Path

from demiurge.world.manifest import system_definitions

PAGE = (Path(__file__).parents[2] / "docs" / "effects.md").read_text("utf-8")
DEFINITIONS = {(d["$kind"], d["name"]): d for d in system_definitions()}
UNTOLD = {"llm.generate", "tool.call"}
"""Their parameters are too many for a table."""


def test_every_effect_stands_on_the_page_with_what_it_takes_and_gives() -> None:
    row = r"^\| `([\w.]+)` \| (.*) \| (.*) \| `([\w.]+)` \| [\w, ]+ \|$"
    rows = {kind: cells for kind, *cells in re.findall(row, PAGE, re.M)}
    effects = {d["kind"]: d for (kind, _), d in DEFINITIONS.items() if kind == "defeffect"}
    assert set(rows) == set(effects)
    for kind, (takes, gives, cap) in rows.items():
        assert cap == effects[kind]["cap_type"]
        if kind not in UNTOLD:
            assert fields(takes) == declared(effects[kind]["params_schema"]), kind
            assert fields(gives) == declared(effects[kind]["receipt_schema"]) - {"reading"}, kind


def test_every_cap_stands_on_the_page_with_its_parameters() -> None:
    caps = {d["cap_type"]: set(d["schema"]["record"]) for (kind, _), d in DEFINITIONS.items() if kind == "defcap"}
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*) ?\|$", PAGE, re.M))
    for cap, parameters in caps.items():
        assert parameters <= set(re.findall(r"`(\w+)`", rows[cap])), cap


def fields(cell: str) -> set[str]:
    """The names outside brackets."""
    return {name.removesuffix("?") for name in re.findall(r"`([\w?]+)`", re.sub(r"\([^)]*\)", "", cell))}


def declared(schema: str) -> set[str]:
    return set(DEFINITIONS["defschema", schema]["type"]["record"])
