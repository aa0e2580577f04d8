from dataclasses import dataclass

from demiurge import Redaction, Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool


@dataclass(frozen=True)
class Search:
    word: str


@dataclass(frozen=True)
class Hits:
    found: int
    titles: tuple[str, ...]

    def render(self) -> str:
        return "\n".join(f"- {title}" for title in self.titles)


def search(params: Search, *, context: ToolContext) -> ToolResult[Hits]:
    titles = tuple(title for title in ("Bolts and nuts", "Nuts in winter") if params.word in title.lower())
    if not titles:
        return ToolResult(f"Nothing about {params.word}. Try one word in singular.", success=False)
    return ToolResult(f"{len(titles)} articles", Hits(len(titles), titles))


@tool(effect=ToolEffect.READ_ONLY)
def archive_size() -> dict[str, int]:
    """How large the archive is."""
    return {"articles": 2, "bytes": 2**60}


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("rows"))
def load_table() -> ToolResult[dict[str, object]]:
    """Loads a table for the user to see; the model need not read it."""
    return ToolResult("Loaded 3 rows.", {"rows": [1, 2, 3]}, exclude_value_from_context=True)


searching = Tool[Search, Hits](
    name="search",
    description="Searches the archive.",
    handler=search,
    effect=ToolEffect.READ_ONLY,
    redaction=Redaction.allow("found"),
)
runner = ToolRunner([searching, archive_size, load_table], policy=ToolPolicy(("search", "archive_size", "load_table")))
for name, arguments in (
    ("search", {"word": "nuts"}),
    ("search", {"word": "screws"}),
    ("archive_size", {}),
    ("load_table", {}),
):
    result = runner.exec_sync(name, arguments)
    print(f"[{name}] public: {result.value}\n{result.content}")
