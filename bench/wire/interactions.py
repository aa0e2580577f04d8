"""Recorded interactions with model providers, as data."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from demiurge.wire import Completion, ProviderError, anthropic, openai_chat, openai_responses, provider_error

__all__ = ["FORMATS", "Interaction", "decoded", "kept", "read", "recorded"]

FORMATS: Mapping[str, ModuleType] = {"chat": openai_chat, "responses": openai_responses, "messages": anthropic}
KEPT = Path(__file__).parents[2] / "tests" / "wire" / "golden"
_PATHS = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "messages"}


@dataclass(frozen=True)
class Interaction:
    """`provider` is the table's line; `api` a key of FORMATS; `body` the response's bytes."""

    name: str
    provider: str
    api: str
    stream: bool
    status: int
    content_type: str
    body: bytes = field(repr=False)
    request: Mapping[str, Any] = field(repr=False)

    @property
    def wire(self) -> ModuleType:
        return FORMATS[self.api]


def recorded() -> list[Interaction]:
    """All of the folder that DEMIURGE_CORPORA names, or what the tests keep. Raises OSError if it can't be read."""
    folder = os.environ.get("DEMIURGE_CORPORA")
    return [*_wire(Path(folder) / "wire"), *_local(Path(folder) / "local_wire")] if folder else list(kept())


def kept() -> Iterator[Interaction]:
    """The answers that the tests keep; of their requests there is nothing."""
    for path in sorted(KEPT.glob("*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        yield Interaction(
            name=path.stem,
            provider=f"kept {row['api']}",
            api=row["api"],
            stream=row["stream"],
            status=row["status"],
            content_type="text/event-stream" if row["stream"] else "application/json",
            body=row["body"].encode(),
            request={},
        )


def _wire(folder: Path) -> Iterator[Interaction]:
    for path in sorted(folder.glob("*.jsonl.gz")):
        provider = path.name.removesuffix(".jsonl.gz")
        api = next((api for api in FORMATS if api in provider), None)
        if api is None:
            continue
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                row = json.loads(line)
                kind = row["response_content_type"] or ""
                yield Interaction(
                    name=row.get("file") or f"{provider} {number}",
                    provider=provider,
                    api=api,
                    stream="event-stream" in kind,
                    status=row["response_status"],
                    content_type=kind,
                    body=row["response_body"].encode(),
                    request=_object(row["request"]),
                )


def _local(folder: Path) -> Iterator[Interaction]:
    for path in sorted(folder.glob("*/*.request.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        api = _PATHS.get(row["path"])
        if api is None:
            continue
        body = path.with_name(row["response_file"].rpartition("/")[2])
        stream = body.suffix == ".sse"
        yield Interaction(
            name=f"{path.parent.name}/{path.name}",
            provider=f"llama.cpp {api}",
            api=api,
            stream=stream,
            status=row["status"],
            content_type="text/event-stream" if stream else "application/json",
            body=body.read_bytes(),
            request=_object(row["request"]),
        )


def _object(request: Any) -> Mapping[str, Any]:
    if isinstance(request, str):
        try:
            request = json.loads(request)
        except ValueError:
            return {}
    return request if isinstance(request, Mapping) else {}


def read(wire: ModuleType, *chunks: bytes) -> Completion | ProviderError:
    """A stream, fed in these chunks."""
    decoder = wire.Decoder()
    for chunk in chunks:
        decoder.feed(chunk)
    try:
        completion: Completion = decoder.close()
    except ProviderError as error:
        return error
    return completion


def decoded(entry: Interaction) -> Completion | ProviderError:
    """The answer, as `models` would read it."""
    if entry.status != 200:
        return provider_error(entry.body, entry.status)
    if entry.stream:
        return read(entry.wire, entry.body)
    try:
        completion: Completion = entry.wire.decode(json.loads(entry.body))
    except ValueError:
        return provider_error(entry.body, entry.status)
    except ProviderError as error:
        return error
    return completion
