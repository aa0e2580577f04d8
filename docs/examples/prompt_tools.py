import asyncio

from demiurge import World

PACER = {
    "id": "scene_pacer",
    "name": "Scene pacer",
    "usageNotes": "When a scene feels slow or rushed.",
    "prompt": "Name up to three paragraphs that slow the scene down, each with a quote.",
    "rationale": "Editors ask for the pace of a scene several times a week.",
    "examples": [
        {"input": "Is the second scene slow?", "expected": "Up to three paragraphs, each with a quote."},
        {"input": "Check the pace.", "expected": "A short list, or a sentence that the pace holds."},
    ],
    "testCases": [
        {
            "id": "quotes",
            "should": "pass",
            "kind": "example",
            "reply": 'The second paragraph is slow: "She waited."',
            "expect": {"must_match": ['"[^"]+"']},
        },
        {
            "id": "no_quotes",
            "should": "fail",
            "kind": "example",
            "reply": "The second paragraph is slow.",
            "expect": {"must_match": ['"[^"]+"']},
        },
    ],
}


async def main() -> None:
    async with World.open("prompt-tools-world") as world:
        proposal = await world.prompt_tools.propose(PACER)
        await world.settle()
        print(proposal.state)
        await world.prompt_tools.skip_review(proposal.id, proposal.digest, "I have read it.")
        approved = await world.prompt_tools.approve(proposal.id, proposal.digest, read=True)
        print(approved.state)
        [live] = [tool for tool in await world.prompt_tools.catalog() if not tool.locked]
        print(live.id, live.layer, live.version)
        await world.chat("draft").send("Is the first scene slow?", tools=["core__get_current_time"])
        turn = (await world.chat("draft").state())["turn"]
        print(turn["catalog_ref"] is not None)


asyncio.run(main())
