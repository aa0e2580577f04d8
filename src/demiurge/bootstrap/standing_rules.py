"""`world.standing_rules`: calls that a person allows in a chat without being asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from demiurge.bootstrap.backend import Backend
from demiurge.values import canonical_json
from demiurge.values.durations import checked_duration
from demiurge.world.unit import Unit

__all__ = ["COUNT", "LASTS_S", "StandingRules"]

COUNT: Final = 10
LASTS_S: Final = 8 * 3600.0


@dataclass(frozen=True)
class StandingRules:
    """The standing rules of the world behind `backend`."""

    backend: Backend

    async def allow(
        self,
        approval_id: str,
        pattern: Mapping[str, Any] | None = None,
        *,
        count: int = COUNT,
        lasts_s: float = LASTS_S,
        reason: str = "",
    ) -> dict[str, Any]:
        """Allows the waiting call and further ones of its chat: `count` calls in all, within `lasts_s` seconds.

        `pattern` names every argument, as `{"equals": value}`, `{"like": "notes/*"}` or `{"any": True}`; None: exactly
        the arguments of the waiting call. Returns `{id, unit, tool, pattern_json}`. Raises NotFound, InvalidValue,
        UsageError (`not_an_approver`), Conflict (`too_many_rules`)."""
        text = canonical_json.encode(dict(pattern)).decode() if pattern is not None else None
        return await self.backend.run.allow(approval_id, text, count, checked_duration(lasts_s, "lasts_s"), reason)

    async def list(self, unit: Unit | None = None) -> list[dict[str, Any]]:
        """Returns the rules that hold, in `unit` or anywhere: `{id, unit, tool, pattern_json, left, expires_ns, by,
        reason, at_ms, ...}`."""
        return await self.backend.read.standing_rules(str(unit) if unit is not None else None)

    async def shown(self) -> Sequence[dict[str, Any]]:
        """Returns the rules that hold anywhere; none for a caller who may not list them."""
        return await self.list() if self.backend.caller.has("agent", "approver") else []

    async def forget(self, rule_id: str) -> None:
        """Ends a rule. Raises NotFound."""
        await self.backend.run.forget_rule(rule_id)
