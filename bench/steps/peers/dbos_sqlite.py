"""DBOS: a workflow of one step that returns the line, its start and its result recorded in SQLite. It keeps no list."""

import sys
from pathlib import Path

import pysqlite3

sys.modules["sqlite3"] = pysqlite3
sys.path.insert(0, str(Path(__file__).parents[1]))
from dbos import DBOS, SetWorkflowID  # noqa: E402 - after the SQLite that it is to find
from timing import main  # noqa: E402


@DBOS.step()
def add(text: str) -> str:
    return text


@DBOS.workflow()
def say(text: str) -> str:
    return add(text)


def steps(folder: Path):
    url = f"sqlite:///{folder}/dbos.sqlite"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "run_admin_server": False})
    DBOS.launch()

    def step(text: str) -> None:
        with SetWorkflowID(text):
            say(text)

    return step


if __name__ == "__main__":
    main(steps)
    DBOS.destroy()
