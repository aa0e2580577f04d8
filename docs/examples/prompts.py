from dataclasses import dataclass, field

from demiurge import (
    MarkdownSection,
    Prompt,
    PromptTemplate,
    Tool,
    ToolContext,
    ToolExample,
    ToolExecutor,
    ToolResult,
)


@dataclass
class LookupParams:
    entity_id: str = field(metadata={"description": "ID to fetch"})


@dataclass
class LookupResult:
    entity_id: str
    url: str


def lookup_handler(
    params: LookupParams,
    *,
    context: ToolContext,
) -> ToolResult[LookupResult]:
    result = LookupResult(entity_id=params.entity_id, url="https://...")
    return ToolResult(message=f"Fetched {result.entity_id}", value=result)


lookup_tool = Tool[LookupParams, LookupResult](
    name="lookup_entity",
    description="Fetch information for an entity ID.",
    handler=lookup_handler,
    examples=(
        ToolExample(
            description="Basic lookup",
            input=LookupParams(entity_id="abc-123"),
            output=LookupResult(entity_id="abc-123", url="https://..."),
        ),
    ),
)

template = PromptTemplate(
    ns="examples/tooling",
    key="demo",
    sections=[
        MarkdownSection(
            title="Guidance",
            key="guidance",
            template="Use tools for context.",
            tools=[lookup_tool],
        ),
    ],
)
prompt = Prompt(template)

rendered = prompt.render()
print(rendered.text)
print([tool.name for tool in rendered.tools])

executor = ToolExecutor(prompt=prompt, rendered_prompt=rendered)
messages, _ = executor.execute([("call_1", "lookup_entity", '{"entity_id": "abc-123"}')])
print(messages[0]["content"])
