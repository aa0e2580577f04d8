from demiurge import ToolContext, ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.tools import ToolProgress
from demiurge.tools.events import AiEvent

FILES = ("a.txt", "b.txt", "c.txt")


@tool(effect=ToolEffect.READ_ONLY)
def index_files(*, context: ToolContext) -> str:
    """Index the files."""
    for number, name in enumerate(FILES, start=1):
        context.progress(number, len(FILES), f"read {name}")
    return f"{len(FILES)} files are indexed."


def show(event: AiEvent) -> None:
    if isinstance(event, ToolProgress) and event.done == event.total:
        print(f"{event.done} of {event.total}: {event.message}")


runner = ToolRunner([index_files], policy=ToolPolicy(("index_files",)), emit=show)
print(runner.exec_sync("index_files", {}).content)
