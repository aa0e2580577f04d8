"""cayu with SQLiteSessionStore. The tool declares ToolEffect.EXTERNAL, as its guide asks for an e-mail. After a crash
the application recovers the incomplete session, then resumes it. An approval is one of its tool policy."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

sys.path.pop(0)  # this file's folder has another cayu: this file
sys.path.insert(0, str(Path(__file__).parents[1]))
from cayu import (
    AgentSpec,
    CayuApp,
    Message,
    ResumeRequest,
    RunRequest,
    Tool,
    ToolEffect,
    ToolResult,
    ToolSpec,
)
from cayu.approvals import ResolutionActor, ResolutionActorSource, ToolApprovalDecision, ToolApprovalRequest
from cayu.evals import ScriptedModelProvider
from cayu.providers import ModelStreamEvent
from cayu.runtime import ExecutionProfileBehaviorIdentity
from cayu.sessions import IncompleteSessionRecoveryRequest, PendingActionQuery
from cayu.storage import SQLiteSessionStore
from cayu.tools import ToolPolicy, ToolPolicyDecision, ToolPolicyResult
from contestant import ADA, COMMAND, answer, deliver, in_cpu_ms


def identity(name):
    return ExecutionProfileBehaviorIdentity(name=name, behavior_version="1", implementation_version="1")


class SendEmail(Tool):
    spec = ToolSpec(
        name="send_email",
        description="Sends an e-mail.",
        input_schema={
            "type": "object",
            "properties": {"to": {"type": "string", "maxLength": 256}},
            "required": ["to"],
            "additionalProperties": False,
        },
        effect=ToolEffect.EXTERNAL,
        max_terminal_payload_bytes=4096,
        execution_profile_identity=identity("send_email"),
    )

    def __init__(self, url):
        self.url = url
        super().__init__()

    async def run(self, ctx, args):
        return ToolResult(content=deliver(self.url, args["to"]))


class Policy(ToolPolicy):
    def __init__(self, asks):
        self.asks = asks

    @property
    def execution_profile_identity(self):
        return identity("policy-that-asks" if self.asks else "policy-that-allows")

    async def authorize(self, request):
        decision = ToolPolicyDecision.REQUIRE_APPROVAL if self.asks else ToolPolicyDecision.ALLOW
        return ToolPolicyResult(decision=decision)


def call(number):
    asked = ModelStreamEvent.tool_call(id=f"call_{number}", name="send_email", arguments={"to": ADA})
    return [asked, ModelStreamEvent.completed({"finish_reason": "tool_calls"})]


SENT = [ModelStreamEvent.text_delta("Sent."), ModelStreamEvent.completed()]


async def events_of(stream):
    async with aclosing(stream) as events:
        return [event.model_dump(mode="json") async for event in events]


def in_app(work, *script):
    def command(folder, url):
        async def go():
            store = SQLiteSessionStore(folder / "cayu.db")
            app = CayuApp(session_store=store, enable_logging=False, owned_resources=(store,))
            app.register_provider(ScriptedModelProvider(list(script)), default=True)
            spec = AgentSpec(name="mailer", model="scripted")
            app.register_agent(spec, tools=[SendEmail(url)], tool_policy=Policy(COMMAND in ("ask", "approve")))
            async with app:
                return await work(app)

        return asyncio.run(go())

    return command


def request(session="1"):
    return RunRequest(agent_name="mailer", session_id=session, messages=[Message.text("user", "Write to Ada.")])


def ending(events):
    """The type of the last event, and what it says about errors."""
    last = events[-1]
    why = {name: value for name, value in last["payload"].items() if "error" in name or "reason" in name}
    return f"{last['type']} {why}" if why else last["type"]


async def start(app):
    return {"said": ending(await events_of(app.run(request())))}


async def pending(app):
    found = await app.session_store.query_pending_actions(PendingActionQuery(session_id="1"))
    return found.actions[0]


async def ask(app):
    await events_of(app.run(request()))
    return {"shown": str(await pending(app))}


async def recover(app):
    result = await app.recover_incomplete_session(IncompleteSessionRecoveryRequest(session_id="1"))
    said = [*(action.value for action in result.actions), *(event.type.value for event in result.events)]
    try:
        again = ResumeRequest(session_id="1", messages=[Message.text("user", "Go on.")])
        said.append(ending(await events_of(app.resume(again))))
    except Exception as error:  # noqa: BLE001 - whatever it says
        said.append(f"{type(error).__name__}: {error}")
    return {"said": ", ".join(said)}


async def approve(app):
    await app.recover_incomplete_session(IncompleteSessionRecoveryRequest(session_id="1"))
    action = await pending(app)
    yes = ToolApprovalRequest(
        session_id="1",
        approval_id=action.approval_id,
        tool_round_id=action.round_id,
        tool_call_id=action.tool_call_id,
        decision=ToolApprovalDecision("approve"),
        resolved_by=ResolutionActor(subject="ops", source=ResolutionActorSource.REQUEST),
    )
    return {"said": ending(await events_of(app.resolve_tool_approval(yes)))}


async def check(app):
    session = await app.session_store.load("1")
    transcript = await app.session_store.load_transcript("1")
    return {"found": False, "said": f"loads {session.status} and {len(transcript)} messages"}


async def turns(app):
    begun = set()

    async def turn(session, _number):
        if session in begun:
            again = ResumeRequest(session_id=session, messages=[Message.text("user", "Write to Ada.")])
            await events_of(app.resume(again))
        else:
            await events_of(app.run(request(session)))
        begun.add(session)

    return await in_cpu_ms(turn)


many = [batch for number in range(40) for batch in (call(number), SENT)]
answer(
    {
        "crash": in_app(start, call(0), SENT),
        "recover": in_app(recover, SENT),
        "ask": in_app(ask, call(0)),
        "approve": in_app(approve, SENT),
        "turn": in_app(start, call(0), SENT),
        "check": in_app(check),
        "turns": in_app(turns, *many),
    }
)
