from dataclasses import dataclass

from demiurge.prompts import MarkdownSection, OutputParseError, Prompt, PromptTemplate, PromptValidationError
from demiurge.sessions import Session


@dataclass(frozen=True)
class Customer:
    name: str
    is_regular: bool = False


@dataclass(frozen=True)
class Complaint:
    about: str


@dataclass(frozen=True)
class Verdict:
    refund_cents: int
    reason: str


desk = PromptTemplate[Verdict](
    ns="shop",
    key="desk",
    sections=[
        MarkdownSection[Customer](
            title="Customer",
            key="customer",
            template="You speak with $name. Prices are in $$.",
            children=[
                MarkdownSection[Customer](
                    title="Regulars",
                    key="regulars",
                    template="Offer $name a coffee.",
                    enabled=lambda customer: customer.is_regular,
                ),
            ],
        ),
        MarkdownSection(
            title="After a complaint",
            key="complaint",
            template="Apologise first.",
            enabled=lambda *, session: session[Complaint].latest() is not None,
        ),
    ],
)
session = Session()
prompt = Prompt(desk).bind(Customer("Ada $name"))
print(prompt.render(session=session).text, "\n---")

session.broadcast(Complaint("cold soup"))
rendered = prompt.bind(Customer("Bob", is_regular=True)).render(session=session)
print([line for line in rendered.text.splitlines() if line.startswith("#")])

print(rendered.parse_output('{"refund_cents": 500, "reason": "The soup was cold."}'))
try:
    rendered.parse_output('{"refund_cents": "500"}')
except OutputParseError as error:
    print(error)

try:
    PromptTemplate(ns="shop", key="desk", sections=[MarkdownSection(title="Hi", key="hi", template="Hello $name.")])
except PromptValidationError as error:
    print(error.section_path, error.placeholder, "|", error)
