import asyncio
from collections.abc import Mapping

from demiurge.tools import ToolContext, ToolPolicy, ToolRunner, tool
from demiurge.tools.input_required import Answer, Answers, InputRequired, Question

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name of the traveller", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
    },
    "required": ["name"],
}


@tool
def book_room(city: str, context: ToolContext) -> str | InputRequired:
    """Book a room."""
    resumed = context.resumed
    if resumed is None:
        return InputRequired((Question("who", f"Who travels to {city}?", schema=FORM),), state=b"offer 17")
    answer = resumed.answers.get("who")
    if answer is None or answer.content is None:
        return "Nothing was booked."
    return f"{resumed.state.decode()}: {answer.content['name']}, {answer.content['nights']} nights in {city}"


def ask(tool_id: str, asked: InputRequired) -> Mapping[str, Answer]:
    for question in asked.questions:
        print(f"{tool_id} asks: {question.message}", [field.name for field in question.fields])
    return {"who": Answer("accept", {"name": "Ada"})}


async def main() -> None:
    runner = ToolRunner([book_room], policy=ToolPolicy(("book_room",)), resources={Answers: ask})
    print((await runner.exec("book_room", {"city": "Rome"})).content)

    alone = ToolRunner([book_room], policy=ToolPolicy(("book_room",)))
    print((await alone.exec("book_room", {"city": "Rome"})).safe_message)


asyncio.run(main())
