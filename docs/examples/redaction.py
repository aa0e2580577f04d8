from dataclasses import dataclass

from demiurge import Redaction, Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner


@dataclass(frozen=True)
class Who:
    customer: int


@dataclass(frozen=True)
class Card:
    brand: str
    number: str


@dataclass(frozen=True)
class Customer:
    name: str
    cards: list[Card]


def look_up(params: Who, *, context: ToolContext) -> ToolResult[Customer]:
    if params.customer != 7:
        return ToolResult(f"There is no customer {params.customer}.", success=False)
    return ToolResult("Ada Lovelace pays by card.", Customer("Ada Lovelace", [Card("Visa", "4111 1111 1111 1111")]))


redactions = (
    Redaction.drop_all(),
    Redaction.message_only(),
    Redaction.allow("name"),
    Redaction.paths("cards.brand"),
)
for redaction in redactions:
    tool = Tool[Who, Customer](
        name="look_up",
        description="Looks up a customer.",
        handler=look_up,
        effect=ToolEffect.READ_ONLY,
        redaction=redaction,
    )
    runner = ToolRunner([tool], policy=ToolPolicy(("look_up",)))
    found, missing = (runner.exec_sync("look_up", {"customer": number}) for number in (7, 8))
    print(f"{redaction.mode}: {found.value}, {missing.safe_message!r}")

print(found.content)
print("4111" in repr(found))
