"""Who is sent an attachment: the model of a unit that was given it. An address in a message gives nothing away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.wire.test_attachments import PNG
from tests.world.scripted import Script, chat_manifest, said, talking

from demiurge.stores import MemoryStore
from demiurge.values.refs import Ref, ref_of
from demiurge.wire.attachments import attached, attachment
from demiurge.world.messages import user_blob

MESSAGE = user_blob("Look", attachments=[(attachment(PNG), ref_of(PNG))])


def always_sending(message: Ref) -> Any:
    """A chat plan that sends one message, whatever it is asked."""

    def changed(definition: Mapping[str, Any]) -> Mapping[str, Any]:
        if definition["name"] != "demiurge/chat_plan@1":
            return definition
        ask, *rest = definition["steps"]
        fields = {**ask["params"]["record"], "message_refs": {"list": [{"hash": message}]}}
        return {**definition, "steps": [{**ask, "params": {"record": fields}}, *rest]}

    return chat_manifest(definitions=changed)


async def test_an_attachment_that_a_unit_was_never_given_is_not_sent(memory: MemoryStore) -> None:
    model = Script(said("I see."), said("I see."))
    async with talking(memory, model, manifest=always_sending(ref_of(MESSAGE))) as talk:
        await talk.host.put_blob(PNG)
        message = await talk.host.put_blob(MESSAGE)
        await talk.say("Show me what others have.")
        assert (talk.turn["status"], talk.turn["code"]) == ("failed", "not_found")
        assert model.requests == []
        await talk.say("Look", message_ref=message)
        assert talk.turn["status"] == "done"
    assert [part.data for part in attached(model.requests[0].items)] == [PNG]
