from demiurge.prompts.planning import Plan, PlanningStrategy, PlanningToolsSection
from demiurge.sessions import Session
from demiurge.tools import ToolPolicy, ToolRunner

session = Session()
section = PlanningToolsSection(session=session, strategy=PlanningStrategy.PLAN_ACT_REFLECT)
policy = ToolPolicy(tuple(tool.name for tool in section.tools))
runner = ToolRunner(section.tools, policy=policy, session=session)


def call(name: str, **arguments: object) -> None:
    result = runner.exec_sync(name, arguments)
    print(f"[{name}]")
    print(result.content if result.ok else f"refused: {result.safe_message}")


call("planning_add_step", steps=["Book a van"])
call("planning_setup_plan", objective="Move house", initial_steps=["Pack", "Book a van"])
call("planning_update_step", step_id=2, status="done", note="Friday, 9:00")
call("planning_update_step", step_id=3, status="done")
call("planning_add_step", steps=["Drive"])
call("planning_read_plan")

plan = session[Plan].latest()
print(plan.status, [step.title for step in plan.steps if step.status != "done"])
