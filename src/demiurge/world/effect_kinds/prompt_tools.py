"""`registry.*`: effects on the registry of prompt tools, and which of them a grant of type `registry` covers.

The unit of a proposal has it checked; a tool reads approved tools, and proposes; the plan of a model run makes the
prompt, and reads the answer. No effect approves anything.
"""

from __future__ import annotations

from typing import Final

from demiurge.tools.capabilities import PromptTools
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, among_ops
from demiurge.world.effect_kinds.types import BOOL, HASH, NAT, TEXT, list_of, option, record, ref, set_of

__all__ = ["PROMPT_TOOLS"]


_READING = ref("sys/UnitReading@1")

PROMPT_TOOLS: Final = EffectFamily(
    cap_type="registry",
    kinds=(
        EffectKind(
            name="registry.check",
            params=record(proposal=TEXT, body_ref=HASH),
            receipt=record(digest=HASH, passed=BOOL, report_ref=HASH, reading=_READING),
            origins=("reducer",),
            typed_receipt="sys/ToolProposalChecked@1",
            notes={"report_ref": "the report of all checks"},
        ),
        EffectKind(
            name="registry.propose",
            params=record(body_ref=HASH, revises=option(TEXT)),
            receipt=record(proposal=TEXT, state=TEXT, digest=HASH),
            origins=("tool",),
            changes=True,
            stays_inside=True,
            notes={"revises": "a proposal of the same author"},
        ),
        EffectKind(
            name="registry.tools",
            params=record(),
            receipt=record(tools_ref=HASH, reading=_READING),
            origins=("tool",),
            notes={"tools_ref": "the approved tools of this turn's catalog, or of the registry"},
        ),
        EffectKind(
            name="registry.prompt",
            params=record(proposal=TEXT, number=NAT, kind=TEXT, case=TEXT, digest=TEXT),
            receipt=record(message_refs=list_of(HASH), readings=list_of(_READING)),
            origins="plan",
            notes={"case": "empty for a review", "message_refs": "what the model is told"},
        ),
        EffectKind(
            name="registry.answer",
            params=record(
                proposal=TEXT, number=NAT, kind=TEXT, case=TEXT, digest=TEXT, output_ref=HASH, usage_ref=option(HASH)
            ),
            receipt=record(answer_ref=option(HASH), code=option(TEXT), message=option(TEXT), cost_micros=option(NAT)),
            origins="plan",
            notes={
                "answer_ref": "the review that the model's answer is, or what is wrong with the reply of a case",
                "code": "why the answer is not a review",
            },
        ),
    ),
    grant=record(ops=option(set_of(TEXT))),
    grant_notes={"ops": "`check` `propose` `tools` `prompt` `answer`"},
    checks=(among_ops,),
    adapter="demiurge.world.effects.prompt_tools:PromptToolEffects",
    restart="performed again; a proposal is submitted once",
    capability=Capability(
        PromptTools,
        "demiurge.world.effects.prompt_tools:WorldPromptTools",
        "`tools` that are approved, and to `propose` a change of one",
    ),
)
