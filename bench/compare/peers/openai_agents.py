"""OpenAI Agents SDK with SQLiteSession. A session keeps messages and no unfinished run, so after a crash the session is
run again without new input. An approval is a RunState, which the program keeps itself, here in a file."""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.testing import assistant_message, function_call
from agents.usage import Usage
from contestant import ADA, COMMAND, answer, deliver, in_cpu_ms

from agents import Agent, Runner, RunState, SQLiteSession, function_tool


class Scripted(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002
        done = isinstance(input, list) and input and input[-1].get("type") == "function_call_output"
        call_id = f"call_{len(input)}"
        said = assistant_message("Sent.") if done else function_call("send_email", {"to": ADA}, call_id=call_id)
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def agent_for(url):
    @function_tool(needs_approval=COMMAND in ("ask", "approve"))
    def send_email(to: str) -> str:
        """Sends an e-mail."""
        return deliver(url, to)

    return Agent(name="mailer", model=Scripted(), tools=[send_email])


def session_in(folder, name="1"):
    return SQLiteSession(name, folder / "agents.db")


def run(folder, url, given="Write to Ada."):
    return asyncio.run(Runner.run(agent_for(url), given, session=session_in(folder)))


def ask(folder, url):
    result = run(folder, url)
    (folder / "state.json").write_text(json.dumps(result.to_state().to_json()))
    return {"shown": str(result.interruptions[0].raw_item)}


def approve(folder, url):
    async def go():
        agent = agent_for(url)
        state = await RunState.from_json(agent, json.loads((folder / "state.json").read_text()))
        state.approve(state.get_interruptions()[0])
        return await Runner.run(agent, state, session=session_in(folder))

    return {"said": asyncio.run(go()).final_output}


def check(folder, url):
    items = asyncio.run(session_in(folder).get_items())
    return {"found": False, "said": f"loads {len(items)} items"}


def turns(folder, url):
    agent = agent_for(url)

    async def turn(session, _number):
        await Runner.run(agent, "Write to Ada.", session=session_in(folder, session))

    return asyncio.run(in_cpu_ms(turn))


answer(
    {
        "crash": run,
        "recover": lambda folder, url: {"said": run(folder, url, []).final_output},
        "ask": ask,
        "approve": approve,
        "turn": lambda folder, url: {"said": run(folder, url).final_output},
        "check": check,
        "turns": turns,
    }
)
