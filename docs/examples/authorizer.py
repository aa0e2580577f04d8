import asyncio

from demiurge import ToolEffect, ToolPolicy, ToolPolicyContext, ToolResult, ToolRunner, tool
from demiurge.tools import AuthorizationRequest, Authorizer

MAY_REFUND = {("acme", "user:ada")}  # in a program: a relation store, asked over the network


class Roles:
    async def check(self, request: AuthorizationRequest, /) -> bool:
        await asyncio.sleep(0)
        who = (request.caller.tenant, request.caller.actor)
        return request.effect is ToolEffect.READ_ONLY or who in MAY_REFUND


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def refund(order: str) -> ToolResult[None]:
    """Pays the price of an order back."""
    return ToolResult(f"{order} is paid back.")


runner = ToolRunner([refund], policy=ToolPolicy(("refund",)), resources={Authorizer: Roles()})

for caller in (
    ToolPolicyContext(run_id="run-7", actor="user:ada", tenant="acme"),
    ToolPolicyContext(run_id="run-8", actor="user:bob", tenant="acme"),
    ToolPolicyContext(run_id="run-9"),
):
    result = runner.exec_sync("refund", {"order": "A-17"}, ctx=caller)
    print(caller.actor or "somebody", "|", result.error_code, "|", result.safe_message or result.content)
