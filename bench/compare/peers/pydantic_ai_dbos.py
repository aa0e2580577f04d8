"""pydantic-ai with its DBOSDurability, in a DBOS workflow on SQLite; the tool is a DBOS step, as the docs ask of tools
that do I/O. DBOS itself recovers the workflow at the restart. An approval is a deferred tool call: the program keeps
the messages, here in a file, and runs the agent again with them and the decision."""

import asyncio
import sys
from pathlib import Path

import pysqlite3

sys.modules["sqlite3"] = pysqlite3  # DBOS needs SQLite 3.42
sys.path.insert(0, str(Path(__file__).parents[1]))
from contestant import ADA, COMMAND, answer, deliver, in_cpu_ms  # noqa: E402 - after the SQLite that DBOS is to find
from dbos import DBOS, SetWorkflowID  # noqa: E402
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter  # noqa: E402
from pydantic_ai.durable_exec.dbos import DBOSDurability  # noqa: E402
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402

URL = sys.argv[3]
ASKS = COMMAND in ("ask", "approve")
HISTORY = "messages.json"


def model(messages, info):
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("Sent.")])
    return ModelResponse(parts=[ToolCallPart("send_email", {"to": ADA}, tool_call_id=f"call_{len(messages)}")])


agent = Agent(
    FunctionModel(model),
    name="mailer",
    output_type=[str, DeferredToolRequests] if ASKS else str,
    capabilities=[DBOSDurability()],
)


@agent.tool_plain(requires_approval=ASKS)
@DBOS.step()
def send_email(to: str) -> str:
    """Sends an e-mail."""
    return deliver(URL, to)


@DBOS.workflow()
async def run(text, history, approved):
    results = DeferredToolResults(approvals=dict.fromkeys(approved, True)) if approved else None
    messages = ModelMessagesTypeAdapter.validate_json(history) if history else None
    result = await agent.run(text, message_history=messages, deferred_tool_results=results)
    return result.output, result.all_messages_json().decode()


def launched(work):
    def command(folder, url):
        url = f"sqlite:///{folder}/dbos.db"
        DBOS(config={"name": "compare", "system_database_url": url, "log_level": "ERROR", "run_admin_server": False})

        async def go():
            DBOS.launch()
            return await work(folder)

        try:
            return asyncio.run(go())
        finally:
            DBOS.destroy()

    return command


async def start(folder):
    with SetWorkflowID("run-1"):
        output, messages = await run("Write to Ada.", None, [])
    (folder / HISTORY).write_text(messages)
    return {"said": str(output), "shown": str(output)}


async def recover(folder):
    handle = await DBOS.retrieve_workflow_async("run-1")
    output, _ = await handle.get_result()
    return {"said": str(output)}


async def approve(folder):
    history = (folder / HISTORY).read_text()
    [call] = ModelMessagesTypeAdapter.validate_json(history)[-1].parts
    with SetWorkflowID("run-2"):
        output, _ = await run(None, history, [call.tool_call_id])
    return {"said": str(output)}


async def check(folder):
    steps = await DBOS.list_workflow_steps_async("run-1")
    return {"found": False, "said": f"loads {len(steps)} steps"}


async def turns(folder):
    histories = {}

    async def turn(session, number):
        with SetWorkflowID(f"{session}-{number}"):
            _, histories[session] = await run("Write to Ada.", histories.get(session), [])

    return await in_cpu_ms(turn)


commands = {"crash": start, "recover": recover, "ask": start, "approve": approve, "turn": start, "check": check}
answer({name: launched(work) for name, work in {**commands, "turns": turns}.items()})
