"""LangGraph: one node that adds to a list in the state of one thread, each invocation saved by SqliteSaver."""

import operator
import sqlite3
import sys
from pathlib import Path
from typing import Annotated, TypedDict

sys.path.insert(0, str(Path(__file__).parents[1]))
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from timing import main


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    said: str


def steps(folder: Path):
    saver = SqliteSaver(sqlite3.connect(folder / "langgraph.db", check_same_thread=False))
    graph = StateGraph(State)
    graph.add_node("add", lambda state: {"log": [state["said"]]})
    graph.add_edge(START, "add")
    graph.add_edge("add", END)
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}}

    def step(text: str) -> None:
        compiled.invoke({"said": text}, config, durability="sync")

    return step


if __name__ == "__main__":
    main(steps)
