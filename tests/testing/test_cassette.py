"""Recorded traffic with a provider, and its playback without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.provider import Provider, serving

from demiurge.errors import InvalidValue, NotFound, UsageError
from demiurge.models import GenerateRequest
from demiurge.testing import Cassette, CassetteMismatch, memory_world
from demiurge.wire.errors import ProviderError
from demiurge.wire.items import Message, Text

CANARY = "sk-canary-0f6d2c81b94e4a77"
OTHER = "canary of the database 58c1"


@pytest.fixture
def served() -> Iterator[Provider]:
    with serving() as running:
        yield running


def request(text: str = "Which bolts?", **fields: object) -> GenerateRequest:
    items = (Message("system", (Text("Be short."),)), Message("user", (Text(text),)))
    return GenerateRequest("openai-responses", "gpt-5-mini", items, **fields)  # type: ignore[arg-type]


def cassette(path: Path, served: Provider | None = None, **options: object) -> Cassette:
    url = served.url if served is not None else "http://127.0.0.1:9"  # nobody listens there
    return Cassette(path, base_url=url, **{"environment": {"LLM_API_KEY": CANARY}, **options})  # type: ignore[arg-type]


async def test_a_recording_is_played_back_without_the_provider(served: Provider, tmp_path: Path) -> None:
    served.script = [served.answer(served.text("M8 or M10?")), served.recorded("responses_stream_call")]
    path = tmp_path / "deep" / "bolts.yaml"
    with cassette(path, served) as model:
        assert model.records
        first = [await model.generate(request("Which bolts?")), await model.generate(request("M8."))]
    assert served.keys == [f"Bearer {CANARY}"] * 2
    served.script = []
    deltas: list[str] = []
    with cassette(path, served, environment={}) as model:
        assert not model.records
        for_second = await model.generate(request("M8."))
        for_first = await model.generate(
            request("Which bolts?"), on_event=lambda event: deltas.append(getattr(event, "delta", ""))
        )
    assert [for_first, for_second] == first
    assert "".join(deltas) == for_first.text == "M8 or M10?"
    assert len(served.seen) == 2


async def test_the_file_can_be_reviewed(served: Provider, tmp_path: Path) -> None:
    served.script = [served.answer(served.text("M8 or M10?"))]
    with cassette(tmp_path / "bolts.yaml", served) as model:
        await model.generate(request())
    text = (tmp_path / "bolts.yaml").read_text()
    assert text.startswith("# Requests to a model provider")
    node = yaml.safe_load(text)
    [exchange] = node["exchanges"]
    assert exchange["request"]["url"] == f"{served.url}/responses"
    assert exchange["request"]["body"]["model"] == "gpt-5-mini"
    assert exchange["answer"]["status"] == 200
    assert "\n    body: |+\n      event: response.output_text.delta\n" in text
    with cassette(tmp_path / "bolts.yaml", served, mode="all") as model:
        await model.generate(request())
    assert (tmp_path / "bolts.yaml").read_text() == text


async def test_no_key_and_no_secret_is_stored(served: Provider, tmp_path: Path) -> None:
    quoted = f'{{"error": {{"message": "Incorrect API key {CANARY} for {OTHER}.", "code": "invalid_api_key"}}}}'
    served.script = [served.raw(quoted.encode(), 401, "application/json", headers={"x-key": CANARY})]
    environment = {"LLM_API_KEY": CANARY, "DATABASE_PASSWORD": "pass-of-the-database"}
    asked = request(f"My key is {CANARY}, and pass-of-the-database; {OTHER}.")
    recording = cassette(tmp_path / "c.yaml", served, environment=environment, secrets=[OTHER])
    with pytest.raises(ProviderError) as caught:
        await recording.generate(asked)
    assert caught.value.code == "authentication"
    text = (tmp_path / "c.yaml").read_text()
    for secret in (CANARY, OTHER, "pass-of-the-database", "uthorization", "x-key"):
        assert secret not in text
    assert "My key is [secret], and [secret]; [secret]." in text
    playing = cassette(tmp_path / "c.yaml", environment=environment, secrets=[OTHER])  # at another address
    with pytest.raises(ProviderError):
        await playing.generate(asked)
    playing.assert_finished()
    assert len(served.seen) == 1


async def test_an_answer_that_spells_a_secret_in_pieces_is_not_stored(served: Provider, tmp_path: Path) -> None:
    served.script = [served.answer(served.text(f"It is {OTHER}."))]
    model = cassette(tmp_path / "c.yaml", served, secrets=[OTHER])
    with pytest.raises(UsageError) as caught:
        await model.generate(request())
    assert caught.value.code == "secret_in_answer"
    assert not (tmp_path / "c.yaml").exists()


async def test_a_broken_stream_that_spells_a_secret_in_pieces_is_not_stored(served: Provider, tmp_path: Path) -> None:
    whole = served.answer(served.text(f"It is {OTHER}."))
    broken = replace(whole, body=whole.body.split(b"event: response.completed")[0])
    served.script = [broken, served.answer(served.text("M8."))]
    model = cassette(tmp_path / "c.yaml", served, secrets=[OTHER])
    with pytest.raises(ProviderError) as caught:
        await model.generate(request())
    assert caught.value.code == "truncated"
    assert not (tmp_path / "c.yaml").exists()
    await model.generate(request())
    stored = yaml.safe_load((tmp_path / "c.yaml").read_text())
    assert [each["answer"]["status"] for each in stored["exchanges"]] == [200]


async def test_a_refusal_that_spells_a_secret_in_pieces_is_not_stored(served: Provider, tmp_path: Path) -> None:
    """A refusal before the answer of a call is stored too, so it is looked through as the answer is."""
    pieces = "".join(f'data: {{"error": {{"index": 0, "message": "{piece}"}}}}\n\n' for piece in OTHER.split("o"))
    spelled_in_pieces = pieces.replace('"}}', 'o"}}', pieces.count('"}}') - 1)
    for status, retried in ((429, True), (400, False)):
        refusal = served.raw(spelled_in_pieces.encode(), status, headers={"retry-after-ms": "1"} if retried else {})
        served.say(refusal, served.answer(served.text("M8.")))
        with pytest.raises(UsageError) as caught:
            await cassette(tmp_path / "c.yaml", served, secrets=[OTHER]).generate(request())
        assert caught.value.code == "secret_in_answer"
        assert len(served.seen) == 1 + retried
        assert not (tmp_path / "c.yaml").exists()


async def test_another_request_is_refused_with_its_difference(served: Provider, tmp_path: Path) -> None:
    served.script = [served.answer(served.text("M8 or M10?"))]
    with cassette(tmp_path / "c.yaml", served) as model:
        await model.generate(request(max_tokens=100))
    with pytest.raises(CassetteMismatch) as caught:
        await cassette(tmp_path / "c.yaml", served).generate(request("Which nuts?", max_tokens=200))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("c.yaml differs from the recorded one:")
    assert {"-  max_output_tokens: 100", "+  max_output_tokens: 200"} <= set(lines)
    assert any(line.startswith("-") and "Which bolts?" in line for line in lines)
    assert any(line.startswith("+") and "Which nuts?" in line for line in lines)
    assert lines[-1] == "If that is right, record it anew: DEMIURGE_CASSETTES=all, or mode='all'."
    with cassette(tmp_path / "c.yaml", served, ignore=["max_output_tokens"]) as model:
        await model.generate(request(max_tokens=300))
        with pytest.raises(CassetteMismatch, match="is one too many: 1 were recorded"):
            await model.generate(request())
        model.mismatch = None
    assert len(served.seen) == 1


async def test_a_swallowed_mismatch_is_raised_at_the_end(served: Provider, tmp_path: Path) -> None:
    served.script = [served.answer(served.text("M8 or M10?"))]
    async with cassette(tmp_path / "c.yaml", served) as model:
        await model.generate(request())
    playing = cassette(tmp_path / "c.yaml", served)
    with pytest.raises(CassetteMismatch, match=r"1 recorded requests of cassette .* were not made"):
        playing.__exit__(None, None, None)
    with pytest.raises(CassetteMismatch):
        await playing.generate(request("Which nuts?"))
    with pytest.raises(CassetteMismatch, match="differs"):
        await playing.__aexit__(None, None, None)


def test_the_modes(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="record it first"):
        cassette(tmp_path / "c.yaml", mode="none")
    with pytest.raises(NotFound):
        cassette(tmp_path / "c.yaml", environment={"DEMIURGE_CASSETTES": "none"})
    with pytest.raises(InvalidValue, match="'once', 'none' or 'all'"):
        cassette(tmp_path / "c.yaml", environment={"DEMIURGE_CASSETTES": "never"})
    for text in ("just text", "cassette: 2\nexchanges: []", "cassette: 1\nexchanges: [{}]", "a: [", "\x00"):
        (tmp_path / "c.yaml").write_text(text)
        with pytest.raises(InvalidValue):
            cassette(tmp_path / "c.yaml")
    assert cassette(tmp_path / "c.yaml", mode="all").records


async def test_a_cassette_is_the_model_of_a_world(served: Provider, tmp_path: Path) -> None:
    served.script = [served.answer(served.text("M8 or M10?"))]
    texts = []
    for mode in ("all", "none"):
        with cassette(tmp_path / "c.yaml", served, mode=mode, provider="openai-responses") as model:
            async with memory_world(model=model, system_prompt="Be short.") as world:
                texts.append((await world.chat().send("Which bolts?")).text)
    assert texts == ["M8 or M10?"] * 2
    assert len(served.seen) == 1
    async with memory_world(model=cassette(tmp_path / "c.yaml", mode="none")) as world:
        reply = await world.chat().send("Which bolts?")
    assert "needs its provider" in reply.message
