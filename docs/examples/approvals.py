from demiurge import (
    InMemoryApprovals,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    tool,
)


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send_mail(to: str, text: str) -> ToolResult[None]:
    """Sends a mail."""
    return ToolResult(f"Sent to {to}.")


policy = ToolPolicy(("send_mail",), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))
approvals = InMemoryApprovals(ttl_ms=60 * 60 * 1000)
runner = ToolRunner([send_mail], policy=policy, approvals=approvals)
agent = ToolPolicyContext(run_id="run-7", actor="agent:support")


def ask(text: str) -> ToolExecResult:
    arguments = {"to": "ada@example.com", "text": text}
    result = runner.exec_sync("send_mail", arguments, tool_call_id="call_1", ctx=agent)
    print(f"{text!r}: {result.error_code or result.content}")
    return result


waiting = ask("Your order is late.")

(request,) = approvals.pending()
print("waiting:", request.tool_id, request.tool_call_id, "for", request.actor)
print("to show:", waiting.record.args, request.approval_id == waiting.approval_id)
approvals.approve(waiting.approval_id or "", by="bob", reason="she asked for it")

ask("Send us your password.")  # other arguments: another question
ask("Your order is late.")
ask("Your order is late.")  # a yes is used once

print(ToolRunner([send_mail], policy=policy).exec_sync("send_mail", {}).error_code)
