"""The Chiefs of Staff of a world, and the events that have to name them.

Whether a proposal needs a Chief's review depends on who there is: a fact of the world, and no word of the sender. So
the process that owns the world writes the Chiefs of that moment into each such event, in place of what it came with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from demiurge.stores.protocol import Store
from demiurge.world.review.lacking import MODEL
from demiurge.world.review.model_run_unit import MODEL_RUN_ASK
from demiurge.world.review.proposal_unit import PROPOSAL_DECIDE, PROPOSAL_SKIP
from demiurge.world.tokens import Token, token_changes

__all__ = ["chief_model", "chiefs_of", "with_chiefs"]

_EVENTS: Final = (PROPOSAL_SKIP, PROPOSAL_DECIDE, MODEL_RUN_ASK)
_ARMS: Final = {"sys/ToolProposalEvent@1": ("Skip", "Decide"), "sys/ModelRunEvent@1": ("Ask",)}


def chiefs_of(store: Store, settings: Mapping[str, Any], now_ns: int) -> list[str]:
    """Returns the Chiefs of Staff as `world.review.lacking` has them. Raises Damaged."""
    tokens: dict[str, Token] = {}
    for change in token_changes(store):
        if change.added is not None:
            tokens[change.added.id] = change.added
        elif change.id is not None:
            tokens.pop(change.id, None)
    good = (token for token in tokens.values() if token.expires_ns is None or token.expires_ns > now_ns)
    people = {token.caller.actor for token in good if "chief" in token.caller.roles}
    model = settings.get("chief")
    return [*sorted(people), *([f"{MODEL}{model}"] if model else [])]


def chief_model(chiefs: Sequence[str]) -> tuple[str, str] | None:
    """Returns the provider and the model that is the Chief of Staff; None if none is."""
    named = next((chief.removeprefix(MODEL) for chief in chiefs if chief.startswith(MODEL)), None)
    if named is None:
        return None
    provider, _, model = named.partition("/")
    return provider, model


def with_chiefs(schema: str, value: Any, store: Store, settings: Mapping[str, Any], now_ns: int) -> Any:
    """Returns the value of an event, with the Chiefs of now if it has to name them."""
    if not isinstance(value, Mapping):
        return value
    if schema in _EVENTS:
        return {**value, "chiefs": chiefs_of(store, settings, now_ns)}
    inner = value.get("$value")
    if value.get("$tag") in _ARMS.get(schema, ()) and isinstance(inner, Mapping):
        return {**value, "$value": {**inner, "chiefs": chiefs_of(store, settings, now_ns)}}
    return value
