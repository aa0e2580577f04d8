from demiurge.prompts import (
    MarkdownSection,
    Prompt,
    PromptTemplate,
    SectionVisibility,
    VisibilityExpansionRequired,
    set_visibility,
)
from demiurge.sessions import Session
from demiurge.tools import ToolPolicy, ToolRunner, tool


@tool
def pay_back(order: str) -> str:
    """Pays an order back."""
    return f"Paid back {order}."


template = PromptTemplate(
    ns="shop",
    key="desk",
    sections=[
        MarkdownSection(
            title="Refunds",
            key="refunds",
            template="Pay back what was broken, up to 50 euros.",
            tools=[pay_back],
            summary="How to pay back an order.",
            visibility=SectionVisibility.SUMMARY,
        ),
        MarkdownSection(
            title="Style",
            key="style",
            template="Short sentences. No jokes about soup.",
            summary="How to write to customers.",
            visibility=SectionVisibility.SUMMARY,
        ),
    ],
)
session = Session()
prompt = Prompt(template)
policy = ToolPolicy(("pay_back", "open_sections", "read_section"))


def turn(name: str, **arguments: object) -> None:
    """One call of the model, and a second rendering if it asks for one."""
    rendered = prompt.render(session=session)
    print("tools:", ", ".join(tool.name for tool in rendered.tools))
    try:
        print(ToolRunner(rendered.tools, policy=policy, session=session).exec_sync(name, arguments).content)
    except VisibilityExpansionRequired as signal:
        print("the model wants", signal.section_keys, "because:", signal.reason)
        set_visibility(session, signal.requested_overrides)


print(prompt.render(session=session).text, "\n---")
turn("read_section", section_key="style")
turn("open_sections", section_keys=["refunds"], reason="A plate came broken.")
turn("pay_back", order="A-17")
