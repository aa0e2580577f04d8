from dataclasses import dataclass

from demiurge import Tool, ToolContext, ToolPolicy, ToolResult, ToolRunner, ToolUserError
from demiurge.filesystems import InMemoryFilesystem
from demiurge.tools.filesystem import Filesystem


@dataclass(frozen=True)
class Rename:
    old: str
    new: str


def rename(params: Rename, *, context: ToolContext) -> ToolResult[None]:
    """Renames a word in all files, if it is in any."""
    files = context.filesystem
    assert files is not None
    for entry in files.glob("**/*.txt"):
        files.edit(entry.path, params.old, params.new, replace_all=True)
    if files.grep("TODO"):
        raise ToolUserError("There is still something to do first.")
    return ToolResult("Renamed.")


tool = Tool[Rename, None](name="rename", description="Rename a word in all files.", handler=rename)
files = InMemoryFilesystem({"a.txt": "bolt, bolt\n", "b/c.txt": "one bolt\nTODO\n"})
runner = ToolRunner([tool], policy=ToolPolicy(("rename",)), resources={Filesystem: files})

for text in ("one bolt\nTODO\n", "one bolt\n"):
    files.write("b/c.txt", text)
    result = runner.exec_sync("rename", {"old": "bolt", "new": "screw"})
    print(result.safe_message or result.content)
    print([files.read(entry.path).text for entry in files.glob("**")])
