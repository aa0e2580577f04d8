from pathlib import Path

from demiurge import ToolEffect, ToolPolicy, ToolPolicyContext

policy = ToolPolicy.load(Path(__file__).with_name("policy_rules.toml"))
WRITE = "workspace__write", ToolEffect.STATE_CHANGE

for caller in (
    ToolPolicyContext(actor="user", roles=("user",)),
    ToolPolicyContext(actor="bot", roles=("agent",)),
    ToolPolicyContext(actor="bot", roles=("agent",), tenant="acme"),
    ToolPolicyContext(actor="somebody"),
):
    decision = policy.decide(caller, *WRITE)
    print(caller.actor, caller.tenant or "-", "|", decision)
    for line in policy.deciding_lines(caller, *WRITE):
        print("   ", line["rule_name"], "|", line["rule"])
    if decision == "require_approval":
        print("    approved by:", policy.approvers_of(caller, *WRITE))
