"""`BudgetUse`: how much of one limit of a budget is used, with the sentence that tells a person so.

A limit nears its end once `NEAR_END_PERCENT` of it is used. A money limit also nears its end once the cost of an answer
is not known, because then it lets no further request through. The numbers are those by which the kernel decides
(`world.budget`), without what running effects may still use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from demiurge.apps.demiurge import CHAT
from demiurge.errors import Unavailable
from demiurge.stores.protocol import Store
from demiurge.tools.limits.allowance import DIMENSIONS, Allowance
from demiurge.values.money import dollars_text
from demiurge.world.budget import MS, Run, Used, limits_of, use_of, wanted
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record, decode_row
from demiurge.world.review.model_run_unit import _LIMITS as RUN_LIMITS  # the source of that module is pinned
from demiurge.world.review.model_run_unit import MODEL_RUN
from demiurge.world.state import UnitState

__all__ = ["NEAR_END_PERCENT", "Account", "BudgetUse", "unit_budgets"]

NEAR_END_PERCENT: Final = 80
"""The part of a limit, in percent, from which on a person is told how much is used."""

Account = Literal["run", "unit", "model_runs"]

WALL_MS: Final = "wall_ms"

_PAGE: Final = 50
"""The number of records that are read at once to find the last effect of a run."""

_NOUNS: Final = {
    "tool_calls": "tool calls",
    "llm_requests": "model requests",
    "total_tokens": "tokens",
}


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """The use of one limit. `account` is `run` (one message to a chat, or one other event, with all that follows),
    `unit` (such as a chat, for ever) or `model_runs` (the model runs on one proposal). `dimension` is `tool_calls`,
    `llm_requests`, `total_tokens`, `cost_micros` (millionths of a dollar) or `wall_ms`; `used` and `limit` count in
    it. `unpriced` answers have a cost that is not known, and that `used` lacks. `says` is a sentence for a person."""

    account: Account
    dimension: str
    used: int
    limit: int
    unpriced: int
    says: str

    @property
    def percent(self) -> int:
        """The used part of the limit, rounded down; over 100 if more was used."""
        return self.used * 100 // self.limit if self.limit else 0

    @property
    def is_near_end(self) -> bool:
        """True if a person should be told. A limit of 0 permits nothing and never nears its end."""
        return self.limit > 0 and (self.percent >= NEAR_END_PERCENT or self.unpriced > 0)


class _Wording(NamedTuple):
    """`subject` begins the sentence of an account, as in "This chat has"; `remedy` says which setting raises a
    limit."""

    subject: str
    remedy: str


def unit_budgets(store: Store, manifest: Manifest, state: UnitState, now_ns: int) -> list[BudgetUse]:
    """Returns the use of each limit that bounds a unit: of its runs that go on, else of its last one if the records
    say it; then of the unit itself."""
    unit, budgets = state.unit, manifest.tool_policy.budgets
    if unit.module == MODEL_RUN:
        return list(_of_model_runs(manifest, state.cell))
    noun = "message" if unit.module == CHAT else "run"
    of_run = _Wording(f"This {noun} has", "To allow more, raise `budgets.run.max_{}` in the tool policy.")
    found: list[BudgetUse] = []
    for run in state.runs.values():
        limits = limits_of(budgets.run, run)
        spent = {name: getattr(run.used, name) + run.reserved(name) for name in DIMENSIONS}
        found += _uses("run", of_run, limits, spent, run.used.unpriced)
        if "deadline_ns" in limits:
            found.append(_of_time(of_run, run, limits["deadline_ns"], now_ns))
    if not state.runs and budgets.run is not None:
        found += _of_last_run(store, manifest, state, budgets.run, of_run)
    if budgets.unit is not None:
        noun = "chat" if unit.module == CHAT else "unit"
        of_unit = _Wording(f"This {noun} has", "To allow more, raise `budgets.unit.max_{}` in the tool policy.")
        used = state.used or Used()
        found += _uses("unit", of_unit, budgets.unit.limits, used._asdict(), used.unpriced)
    return found


def _uses(
    account: Account, wording: _Wording, limits: Mapping[str, int], used: Mapping[str, int], unpriced: int
) -> Iterator[BudgetUse]:
    for dimension in DIMENSIONS:
        if dimension in limits:
            unknown = unpriced if dimension == "cost_micros" else 0
            yield _use(account, wording, dimension, used[dimension], limits[dimension], unknown)


def _use(account: Account, wording: _Wording, dimension: str, used: int, limit: int, unpriced: int = 0) -> BudgetUse:
    remedy = wording.remedy.format(dimension)
    if unpriced:
        answers = "1 answer" if unpriced == 1 else f"{unpriced} answers"
        says = (
            f"{wording.subject} {answers} of unknown cost, so the money budget lets no further request through. "
            "Use a model whose price is known, or take the limit away."
        )
    elif used >= limit:
        says = f"{wording.subject} used up the budget: {_amounts(dimension, used, limit)}. {remedy}"
    else:
        amounts, percent = _amounts(dimension, used, limit), used * 100 // limit
        says = f"{wording.subject} used {amounts} of the budget ({percent} %). {remedy}"
    return BudgetUse(account, dimension, used, limit, unpriced, says)


def _amounts(dimension: str, used: int, limit: int) -> str:
    if dimension == "cost_micros":
        return f"${dollars_text(used)} of ${dollars_text(limit)}"
    if dimension == WALL_MS:
        part, noun = (60_000, "minutes") if limit >= 120_000 else (1000, "seconds")
        return f"{used // part} of {limit // part} {noun}"
    return f"{used:,} of {limit:,} {_NOUNS[dimension]}"


def _of_time(wording: _Wording, run: Run, deadline_ns: int, now_ns: int) -> BudgetUse:
    used, limit = max(0, now_ns - run.begun_ns) // MS, max(1, (deadline_ns - run.begun_ns) // MS)
    return _use("run", wording, WALL_MS, used, limit)


def _of_last_run(
    store: Store, manifest: Manifest, state: UnitState, limits: Allowance, wording: _Wording
) -> Iterator[BudgetUse]:
    """Yields the use of the run that ended last, as of its last effect: what the intent left of the budget, and what
    the receipt used. Nothing if the manifest is another one by now."""
    last = _last_effect(store, state)
    if last is None:
        return
    intent, receipt = last
    left = (intent.body.get("left") or {}).get("run")
    if left is None or receipt.stamp.manifest != manifest.ref:
        return
    kind, params = intent.body["kind"], intent.body["params"]
    want, used = wanted(kind, params), use_of(kind, params, receipt.body, store.get_blob)
    spent = {
        name: limits.limits[name] - left[name] - getattr(want, name) + getattr(used, name)
        for name in limits.limits
        if name in left
    }
    bounded = {name: limits.limits[name] for name in spent}
    yield from _uses("run", wording, bounded, spent, used.unpriced)


def _last_effect(store: Store, state: UnitState) -> tuple[Record, Record] | None:
    """Returns the intent and the receipt of the last effect of a unit that has a receipt; None if there is none, or if
    the records are in an archive."""
    end = state.seq
    while end > 0:
        start = max(0, end - _PAGE)
        try:
            rows = list(store.read(str(state.unit), start, end - start))
        except Unavailable:
            return None
        for row in reversed(rows):
            if row.kind == "receipt":
                receipt = decode_row(row)
                assert isinstance(receipt.cause, int)
                [intent] = store.read(str(state.unit), receipt.cause, 1)
                return decode_row(intent), receipt
        end = start
    return None


def _of_model_runs(manifest: Manifest, cell: Mapping[str, Any] | None) -> Iterator[BudgetUse]:
    """Yields the use of the budget that the model runs on one proposal share."""
    limits = {**RUN_LIMITS, **manifest.settings.get("model_runs", {})}
    used = cell["used"] if cell is not None else {"requests": 0, "tokens": 0, "cost_micros": 0, "unpriced": 0}
    fields = {"max_requests": "llm_requests", "max_tokens": "total_tokens", "max_cost_micros": "cost_micros"}
    for name, dimension in fields.items():
        if name in limits:
            remedy = f"To allow more, raise `{name}` of the manifest's setting `model_runs`."
            wording = _Wording("The model runs on this proposal have", remedy)
            amount = used[name.removeprefix("max_")]
            unknown = used["unpriced"] if dimension == "cost_micros" else 0
            yield _use("model_runs", wording, dimension, amount, limits[name], unknown)
