"""The answer of a person to a question of `core__ask_user`, as the tool's handler gets it in a world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from demiurge.tools.core.ask_user import ask_user
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.ids import ASK_USER
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import StaticToolSource
from demiurge.values import canonical_json
from demiurge.world.effect import EffectCall

__all__ = ["ANSWERED", "QUESTIONS", "RecordedAnswer", "waiting_policy"]

QUESTIONS = StaticToolSource([ask_user])
"""The shipped tool alone: the answer to a question counts also if the wording of the tool has changed since."""

ANSWERED = ToolPolicy((ASK_USER,))
"""The policy under which an answer is worded. The policies of the world were asked when the person answered."""


class RecordedAnswer:
    """The answer in the journal (`tools.capabilities.People`), or none while a question waits."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

    async def ask(self, question: str, choices: Sequence[str], *, allow_other: bool) -> str:
        """Returns the recorded answer. Raises ToolFailure (`unavailable`) if there is none."""
        ref = self._call.intent.answer_ref
        if ref is None:
            raise ToolFailure(ToolErrorCode.UNAVAILABLE)
        return str(canonical_json.parse_object(self._call.get_blob(ref))["answer"])


def waiting_policy(policy: ToolPolicy) -> ToolPolicy:
    """Returns `policy` with one more line: a question waits for a person."""
    return replace(policy, require_approval_for_tools=(*policy.require_approval_for_tools, ASK_USER))
