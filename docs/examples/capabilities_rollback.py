import asyncio

from demiurge import ToolContext, ToolEffect, ToolPolicy, ToolRunner, ToolUserError, tool
from demiurge.capabilities import MemoryWorkspaces
from demiurge.tools.capabilities import Workspaces


@tool(effect=ToolEffect.STATE_CHANGE, capabilities=(Workspaces,))
async def rename_chapter(old: str, new: str, context: ToolContext) -> str:
    """Gives a chapter another title, in its file and in the table of contents."""
    book = context.resources.get(Workspaces)
    assert book is not None
    chapter = await book.read("chapter.md", workspace="main")
    await book.write("chapter.md", chapter.text.replace(old, new), workspace="main", expected_version=None)
    contents = await book.read("contents.md", workspace="main")
    if old not in contents.text:
        raise ToolUserError(f"The table of contents has no chapter {old}.")
    await book.write("contents.md", contents.text.replace(old, new), workspace="main", expected_version=None)
    return "Renamed."


async def main() -> None:
    book = MemoryWorkspaces()
    await book.write("chapter.md", "# Dawn\n", workspace="main", expected_version=None)
    await book.write("contents.md", "1. Dusk\n", workspace="main", expected_version=None)
    runner = ToolRunner([rename_chapter], policy=ToolPolicy(("rename_chapter",)), resources={Workspaces: book})
    result = await runner.exec("rename_chapter", {"old": "Dawn", "new": "Noon"})
    print(result.safe_message)
    print(await book.read("chapter.md", workspace="main"))


asyncio.run(main())
