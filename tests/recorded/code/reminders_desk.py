from collections.abc import Mapping
from typing import Any

from demiurge import EffectRequest, Step
from demiurge.world.reducer import ReducerContext


def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Reminds of each wish at its time, and would keep its text."""
    tag, value = event["$tag"], event["$value"]
    if tag == "Wish":
        content = {"$tag": "bytes", "$value": value["text"].encode()}
        return Step(
            append={"notes": [f"noted: {value['text']}"]},
            effects=[
                EffectRequest("timer.set", {"deliver_at_ns": value["at_ns"]}, key=value["text"]),
                EffectRequest("blob.put", {"content": content}, key=value["text"]),
            ],
        )
    said = "ok" if value["error"] is None else value["error"]["code"]
    return Step(append={"notes": [f"{tag} {value['key']}: {said}"]})
