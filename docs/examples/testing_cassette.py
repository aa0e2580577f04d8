import asyncio

from demiurge.models import GenerateRequest
from demiurge.testing import Cassette, CassetteMismatch
from demiurge.wire.items import Message, Text


def request(question: str) -> GenerateRequest:
    return GenerateRequest("openai-responses", "gpt-5-mini", (Message("user", (Text(question),)),))


async def main() -> None:
    for _ in range(2):
        with Cassette("bolts.yaml") as model:
            answer = await model.generate(request("20 bolts, please."))
            print("recorded" if model.records else "played back", answer.tool_calls[0].name)
    try:
        with Cassette("bolts.yaml") as model:
            await model.generate(request("30 bolts, please."))
    except CassetteMismatch as error:
        print(str(error).splitlines()[0])


asyncio.run(main())
