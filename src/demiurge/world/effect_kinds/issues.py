"""`issues.*`: what a running tool reads of a world's issues, and which of it a grant of type `issues` covers."""

from __future__ import annotations

from typing import Final

from demiurge.tools.capabilities import Issues
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, among_ops
from demiurge.world.effect_kinds.types import HASH, NAT, TEXT, option, record, set_of

__all__ = ["ISSUES", "MAX_ISSUES", "RECENT_RECORDS"]

MAX_ISSUES: Final = 2000
"""How many issues a search looks at: those that changed last."""

RECENT_RECORDS: Final = 5000
"""How many of the world's last records are searched for the receipts of core tools."""


ISSUES: Final = EffectFamily(
    cap_type="issues",
    kinds=(
        EffectKind(
            name="issues.search",
            params=record(status=option(TEXT)),
            receipt=record(issues_ref=HASH, count=NAT),
            origins=("tool",),
            notes={
                "issues_ref": f"each issue without its text, with its `reading`; of more than {MAX_ISSUES} issues "
                "those that changed last, and `truncated`"
            },
        ),
        EffectKind(
            name="issues.receipts",
            params=record(limit=NAT),
            receipt=record(receipts_ref=HASH, count=NAT),
            origins=("tool",),
            notes={
                "limit": "newest first",
                "receipts_ref": f"receipts of core tools in the last {RECENT_RECORDS} records of the world",
            },
        ),
    ),
    grant=record(ops=option(set_of(TEXT))),
    grant_notes={"ops": "`search` `receipts`"},
    checks=(among_ops,),
    adapter="demiurge.world.effects.issues:IssueEffects",
    restart="performed again, with the same key",
    capability=Capability(
        Issues,
        "demiurge.world.effects.issues:WorldIssues",
        "`search` issues, and the `recent_receipts` of core tools",
    ),
)
