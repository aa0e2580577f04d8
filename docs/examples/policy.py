from pathlib import Path

from demiurge import ToolEffect, ToolPolicy, ToolPolicyContext

policy = ToolPolicy.load(Path(__file__).with_name("policy.toml"))
asking = ToolPolicyContext(run_id="run-1", actor="user")

print(policy.decide(asking, "workspace__read", ToolEffect.READ_ONLY))
print(policy.decide(asking, "workspace__write", ToolEffect.STATE_CHANGE))
print(policy.decide(asking, "mail__send", ToolEffect.EXTERNAL_SIDE_EFFECT))
