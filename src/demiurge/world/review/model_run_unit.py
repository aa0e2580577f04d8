"""The module `sys/ModelRun@1`: the model runs on proposals, one unit for each proposal.

A run of the kind `review` asks a model to review the proposal in the place of the Chief of Staff; one of the kind
`cases` tries its automatic test cases on a model, one request after the other. The plan of a request makes the prompt,
asks the model and reads the answer, in three effects that are recorded like all others; this module decides who begins
a run, keeps its budget, and records its result. A review goes to the unit of the proposal, which takes it as advice; an
answer that is no review fails the run. What the cases gave stays here, and no approval needs it.

A user or the Chief of Staff begins a run, never an agent. All runs on a proposal share one budget: the setting
`model_runs` of the manifest, `{max_requests, max_tokens, max_cost_micros}`. It is checked before each request."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from demiurge.values import canonical_json
from demiurge.world.reducer import Emit, Reducer, ReducerContext, Step
from demiurge.world.review.proposal_unit import PROPOSAL_ASSESS

__all__ = [
    "CASES",
    "MAX_ANSWER_TOKENS",
    "MODEL_RUN",
    "MODEL_RUN_ASK",
    "MODEL_RUN_REFUSED",
    "MODEL_RUN_REQUEST",
    "REVIEW",
    "model_run_reducer",
    "open_request",
]

MODEL_RUN: Final = "sys/ModelRun@1"
MODEL_RUN_ASK: Final = "sys/ModelRunAsk@1"
MODEL_RUN_REQUEST: Final = "sys/ModelRunRequest@1"
"""The event that starts the plan of one request to a model."""
MODEL_RUN_REFUSED: Final = "sys/ModelRunRefused@1"

REVIEW: Final = "review"
CASES: Final = "cases"
KINDS: Final = (REVIEW, CASES)

MAX_ANSWER_TOKENS: Final = 2048
"""The most tokens of one answer."""

_LIMITS: Final = {"max_requests": 60, "max_tokens": 300_000}
"""The budget of the runs on one proposal, unless the manifest's setting `model_runs` says otherwise."""
_NAMES: Final = {*_LIMITS, "max_cost_micros"}
_BAD_SETTING: Final = (
    f"The manifest's setting `model_runs` is an object with any of {', '.join(sorted(_NAMES))}, each a whole number "
    "from 0. Correct it: no model is asked under a budget that can't be read."
)
_NEVER_SENT: Final = (
    *("secret_unavailable", "policy_denied", "budget_exceeded", "deadline_exceeded", "effect_params_invalid"),
)
"""The codes of a request that was refused before anything was sent to a provider."""
_MAX_NAME: Final = 256
_MAX_CASES: Final = 10

State = Mapping[str, Any]


def reduce(state: State | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of the runs on a proposal."""
    tag, value = event["$tag"], event["$value"]
    if tag == "Ask":
        return _asked(state, value, context)
    if context.origin != "derived" or state is None or state["going"] is None:
        return Step()
    run = state["runs"][state["going"]]
    if tag in ("PlanFailed", "StepFailed"):
        return _ended(state, run, context, value["code"], value["message"])
    if (value["number"], value["case"]) != (run["number"], _open_case(run)):
        return Step()
    return _answered(state, run, value, context) if tag == "Answered" else _failed(state, run, value, context)


def _asked(state: State | None, value: Mapping[str, Any], context: ReducerContext) -> Step:
    if context.origin != "external" or not {"user", "chief"} & set(context.stamp.caller.roles):
        return _refused(context, "role_missing", "Only a user or the Chief of Staff asks a model about a proposal.")
    if value["kind"] not in KINDS:
        return _refused(context, "unknown_kind", f"A model run is one of {', '.join(KINDS)}.")
    if (len(value["cases"]) > 0) != (value["kind"] == CASES) or len(value["cases"]) > _MAX_CASES:
        return _refused(context, "no_case", f"A run of cases names 1 to {_MAX_CASES} of them; a review names none.")
    if not all(0 < len(value[name]) <= _MAX_NAME and value[name].isprintable() for name in ("provider", "model")):
        return _refused(context, "bad_model", "Name a provider and a model, in printable characters.")
    if not _is_budget(context.settings.get("model_runs", _LIMITS)):
        return _refused(context, "bad_setting", _BAD_SETTING)
    if state is not None and state["going"] is not None:
        return _refused(context, "busy", "A model run on this proposal is going on: wait until it is over.")
    used = state["used"] if state is not None else {"requests": 0, "tokens": 0, "cost_micros": 0, "unpriced": 0}
    short = _shortfall(used, context)
    if short is not None:
        return _refused(context, "budget_exceeded", short)
    run = {
        "number": state["last"] + 1 if state is not None else 1,
        **{name: value[name] for name in ("digest", "provider", "model", "cases", "chiefs")},
        "by": context.stamp.actor,
        "at": context.stamp.time_ns,
        "ended_at": None,
        "status": "running",
        "code": None,
        "message": None,
        "requests": 0,
        "tokens": 0,
        "cost_micros": 0,
        "results": [],
    }
    runs = {**(state["runs"] if state is not None else {}), value["kind"]: run}
    return Step(
        set={"last": run["number"], "going": value["kind"], "runs": runs, "used": used},
        events=[_request(run, value["kind"], context)],
    )


def _request(run: Mapping[str, Any], kind: str, context: ReducerContext) -> Emit:
    request = {
        "proposal_id": context.key,
        **{name: run[name] for name in ("number", "digest", "provider", "model")},
        "kind": kind,
        "case": _open_case(run),
        "temperature": context.settings.get("temperature", "0"),
        "max_tokens": MAX_ANSWER_TOKENS,
    }
    return Emit(MODEL_RUN_REQUEST, request)


def open_request(state: State) -> dict[str, Any] | None:
    """Returns the request that is open: its kind, number, case and digest; None if there is none."""
    if state["going"] is None:
        return None
    run = state["runs"][state["going"]]
    return {"kind": state["going"], "number": run["number"], "case": _open_case(run), "digest": run["digest"]}


def _open_case(run: Mapping[str, Any]) -> str:
    """Returns the test case whose request is open; "" for the request of a review."""
    return str(run["cases"][len(run["results"])]) if run["cases"] else ""


def _answered(state: State, run: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes an answer of a model. The review of a proposal goes to the unit of the proposal; after a case comes the
    next one."""
    tokens = value["tokens"] or MAX_ANSWER_TOKENS  # a provider that reports none
    used, run = _counted(state, run, tokens, value["cost_micros"])
    state = {**state, "used": used}
    if value["answer_ref"] is None:
        return _ended(state, run, context, value["code"], value["message"])
    answer = canonical_json.parse_object(context.blob(value["answer_ref"]))
    if state["going"] == REVIEW:
        about = {name: run[name] for name in ("digest", "by", "provider", "model", "chiefs")}
        return _ended(
            state, run, context, events=[Emit(PROPOSAL_ASSESS, {"proposal_id": context.key, **about, **answer})]
        )
    run = {**run, "results": [*run["results"], answer]}
    if len(run["results"]) == len(run["cases"]):
        return _ended(state, run, context)
    short = _shortfall(used, context)
    if short is not None:
        return _ended(state, run, context, "budget_exceeded", short)
    return Step(
        set={"runs": {**state["runs"], CASES: run}, "used": used},
        events=[_request(run, CASES, context)],
    )


def _failed(state: State, run: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes the failure of an effect. A request that was sent counts, with the usage that is known of it."""
    used = state["used"]
    if value["asked"] and value["code"] not in _NEVER_SENT:
        used, run = _counted(state, run, value["tokens"], value["cost_micros"])
    return _ended({**state, "used": used}, run, context, value["code"], value["message"])


def _ended(
    state: State,
    run: Mapping[str, Any],
    context: ReducerContext,
    code: str | None = None,
    message: str | None = None,
    events: Sequence[Emit] = (),
) -> Step:
    over = {"status": "done" if code is None else "failed", "ended_at": context.stamp.time_ns}
    run = {**run, **over, "code": code, "message": message}
    return Step(
        set={"going": None, "runs": {**state["runs"], state["going"]: run}, "used": state["used"]},
        events=events,
    )


def _counted(
    state: State, run: Mapping[str, Any], tokens: int, cost_micros: int | None
) -> tuple[dict[str, int], dict[str, Any]]:
    """Returns what the runs have used, and the run, after one more request. The cost of a run is None from the first
    request on whose cost nobody knows."""
    now = state["used"]
    used = {
        "requests": now["requests"] + 1,
        "tokens": now["tokens"] + tokens,
        "cost_micros": now["cost_micros"] + (cost_micros or 0),
        "unpriced": now["unpriced"] + (cost_micros is None),
    }
    known = run["cost_micros"] is not None and cost_micros is not None
    cost = run["cost_micros"] + cost_micros if known else None
    return used, {**run, "requests": run["requests"] + 1, "tokens": run["tokens"] + tokens, "cost_micros": cost}


def _is_budget(limits: object) -> bool:
    """Returns whether the setting has the form of a budget. A misspelt limit is no limit, so it is refused."""
    if not isinstance(limits, Mapping) or not limits.keys() <= _NAMES:
        return False
    return all(type(limit) is int and limit >= 0 for limit in limits.values())


def _shortfall(used: Mapping[str, int], context: ReducerContext) -> str | None:
    """Returns why the budget does not suffice for one more request, None if it does."""
    limits: Mapping[str, Any] = context.settings.get("model_runs", _LIMITS)
    over = "The budget for model runs on this proposal is used up"
    if used["requests"] >= limits.get("max_requests", _LIMITS["max_requests"]):
        return f"{over}: {used['requests']} requests were made."
    if used["tokens"] + MAX_ANSWER_TOKENS > limits.get("max_tokens", _LIMITS["max_tokens"]):
        return f"{over}: {used['tokens']} tokens were used, and {MAX_ANSWER_TOKENS} may be needed."
    max_cost = limits.get("max_cost_micros")
    if max_cost is not None and (used["unpriced"] or used["cost_micros"] >= max_cost):
        return f"{over}: nobody knows what an answer cost." if used["unpriced"] else f"{over}: no money is left."
    return None


def _refused(context: ReducerContext, code: str, message: str) -> Step:
    return Step(events=[Emit(MODEL_RUN_REFUSED, {"proposal_id": context.key, "code": code, "message": message})])


def model_run_reducer() -> Reducer:
    """Returns the code of the module."""
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
