"""LangChain's agent on LangGraph with SqliteSaver, `durability="sync"`. After a crash the thread is resumed with None
as its input; an approval is that of HumanInTheLoopMiddleware."""

import asyncio
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from contestant import ADA, COMMAND, answer, deliver, in_cpu_ms
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

CALL = {"name": "send_email", "args": {"to": ADA}, "type": "tool_call"}


class Scripted(BaseChatModel):
    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        done = isinstance(messages[-1], ToolMessage)
        said = AIMessage("Sent.") if done else AIMessage("", tool_calls=[{**CALL, "id": f"call_{len(messages)}"}])
        return ChatResult(generations=[ChatGeneration(message=said)])

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self


def agent_in(folder, url):
    @tool
    def send_email(to: str) -> str:
        """Sends an e-mail."""
        return deliver(url, to)

    saver = SqliteSaver(sqlite3.connect(folder / "langgraph.db", check_same_thread=False))
    asks = [HumanInTheLoopMiddleware({"send_email": True})] if COMMAND in ("ask", "approve") else []
    return create_agent(Scripted(), [send_email], checkpointer=saver, middleware=asks)


def thread(name):
    return {"configurable": {"thread_id": name}}


def start(folder, url, session="1"):
    given = {"messages": [{"role": "user", "content": "Write to Ada."}]}
    return agent_in(folder, url).invoke(given, thread(session), durability="sync")


def said(state):
    return state["messages"][-1].content or "it waits"


def turns(folder, url):
    agent = agent_in(folder, url)

    async def turn(session, _number):
        given = {"messages": [{"role": "user", "content": "Write to Ada."}]}
        agent.invoke(given, thread(session), durability="sync")

    return asyncio.run(in_cpu_ms(turn))


def resume(given):
    return lambda folder, url: {"said": said(agent_in(folder, url).invoke(given, thread("1"), durability="sync"))}


def check(folder, url):
    state = agent_in(folder, url).get_state(thread("1"))
    return {"found": False, "said": f"loads {len(state.values['messages'])} messages"}


answer(
    {
        "crash": start,
        "recover": resume(None),
        "ask": lambda folder, url: {"shown": str(start(folder, url)["__interrupt__"][0].value["action_requests"])},
        "approve": resume(Command(resume={"decisions": [{"type": "approve"}]})),
        "turn": lambda folder, url: {"said": said(start(folder, url))},
        "check": check,
        "turns": turns,
    }
)
