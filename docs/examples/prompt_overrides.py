import tempfile

from demiurge.prompts import (
    FolderOverrides,
    MarkdownSection,
    Prompt,
    PromptOverride,
    PromptTemplate,
    PromptValidationError,
)
from demiurge.tools import tool


@tool
def stock_count(part: str) -> int:
    """Counts a part."""
    return 120


def template(text: str) -> PromptTemplate:
    rules = MarkdownSection(title="Rules", key="rules", template="Sell what you have.", accepts_overrides=False)
    manner = MarkdownSection(title="Manner", key="manner", template=text, tools=[stock_count], children=[rules])
    return PromptTemplate(ns="shop", key="parts", sections=[manner])


def show(prompt: Prompt) -> None:
    rendered = prompt.render()
    print(rendered.text.splitlines()[2], "|", rendered.tools[0].description)
    for left_out in rendered.ignored_overrides:
        print("left out:", left_out.fault, "|", left_out.message)


with tempfile.TemporaryDirectory() as folder:
    store = FolderOverrides(folder)
    prompt = Prompt(template("Be kind."), store)
    show(prompt)

    now = prompt.descriptor
    manner = now.section_override(("manner",), "Be kind, and brief.")
    count = now.tool_override("stock_count", "Counts a part in the shop.", {"part": "As in the catalog."})
    store.put(now, PromptOverride("shop", "parts", sections=(manner,), tools=(count,)))
    show(prompt)
    show(Prompt(template("Be kind, and honest."), store))

    try:
        now.section_override(("manner", "rules"), "Sell everything.")
    except PromptValidationError as error:
        print("refused:", error)
