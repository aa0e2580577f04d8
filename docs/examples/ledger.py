import asyncio

from demiurge import (
    EffectLedger,
    IdempotencyConfig,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    ToolUserError,
    tool,
)

charged: list[str] = []


@tool(idempotency=IdempotencyConfig("params", param_keys=("order",)))
async def charge_card(order: str, note: str = "") -> ToolResult[int]:
    """Charges the card for an order, once."""
    await asyncio.sleep(0)  # the bank at work
    if order == "A-13":
        raise ToolUserError("The card was declined.")
    charged.append(order)
    return ToolResult(f"Charged for {order}.", len(charged))


runner = ToolRunner([charge_card], policy=ToolPolicy(("charge_card",)), ledger=EffectLedger())
acme = ToolPolicyContext(run_id="run-7", tenant="acme")
other = ToolPolicyContext(run_id="run-7", tenant="other")


async def charge(order: str, note: str = "", ctx: ToolPolicyContext = acme) -> None:
    record = (await runner.exec("charge_card", {"order": order, "note": note}, ctx=ctx)).record
    outcome = record.error["message"] if record.error else record.result["message"]
    print(f"{ctx.tenant}, {order}: {outcome}{' (replayed)' if record.replayed else ''}")


async def main() -> None:
    await charge("A-17")
    await charge("A-17", "I am not sure whether I did this.")
    await charge("A-17", ctx=other)
    await charge("A-13")
    await charge("A-13")
    await asyncio.gather(*[charge("A-18") for _ in range(3)])
    print(charged)


asyncio.run(main())
