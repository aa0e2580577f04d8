"""The file of a cassette: YAML that a person can review, with one entry for each request and its answer.

Invariant: no header of a request is stored, and every secret that is known is masked in all that is stored.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from demiurge.errors import InvalidValue, NotFound
from demiurge.models.scrub import written_forms
from demiurge.tools.execution.secret_mask import as_word, is_short
from demiurge.wire.sse import SseParser

__all__ = ["Mask", "RecordedExchange", "difference", "read_cassette", "spelled", "write_cassette"]

FORMAT: Final = 1
HEAD: Final = """\
# Requests to a model provider and its answers, recorded by demiurge.testing.Cassette.
# Headers of requests are not stored, and known secrets are masked. Read it before you commit it.
"""
MASK: Final = "[secret]"
SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
SHORTEST: Final = 8
"""The shortest value of an environment variable that is taken for a secret, in characters."""
LONGEST_DIFFERENCE: Final = 60
"""The most lines of a difference that an error shows."""


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """A request and its answer. `url` has no query and no credentials; `body` is the request's JSON; `headers` are the
    few of the answer that a client reads; `answer` is the answer's text."""

    method: str
    url: str
    body: Any
    status: int
    headers: Mapping[str, str]
    answer: str

    @property
    def request(self) -> dict[str, Any]:
        return {"method": self.method, "url": self.url, "body": self.body}

    def to_node(self) -> dict[str, Any]:
        answer = {"status": self.status, "headers": dict(self.headers), "body": self.answer}
        return {"request": self.request, "answer": answer}


class Mask:
    """Masks secrets: those that are given, and the values of the environment's variables that are named like one."""

    def __init__(self, secrets: Iterable[str], environment: Mapping[str, str]) -> None:
        named = (value for name, value in environment.items() if SECRET_NAME.search(name) and len(value) >= SHORTEST)
        self._secrets = {secret.strip() for secret in (*secrets, *named) if secret.strip()}

    def add(self, secret: str | None) -> None:
        if secret:
            self._secrets.add(secret)

    def __call__(self, text: str) -> str:
        for secret in sorted(self._secrets, key=lambda each: (-len(each), each)):
            for form in written_forms(secret):
                text = as_word(form).sub(MASK, text) if is_short(secret) else text.replace(form, MASK)
        return text


def spelled(exchange: RecordedExchange) -> list[str]:
    """Returns the texts that an answer spells: each text of its JSON, decoded, and joined with the texts at the same
    place of the other events of the stream. The pieces of one text may also be told apart by numbers beside them, such
    as `index`: they are joined once with that, and once without."""
    joined: dict[tuple[Any, ...], list[str]] = {}
    documents = [event.data for event in SseParser().feed(f"{exchange.answer}\n\n".encode())]
    for document in (exchange.answer.encode(), *documents):
        try:
            event = json.loads(document)
        except ValueError:
            continue
        for path, numbers, text in _texts(event, (), ()):
            joined.setdefault((path,), []).append(text)
            joined.setdefault((path, numbers), []).append(text)
    return ["".join(pieces) for pieces in joined.values()]


def _texts(node: Any, path: tuple[str, ...], numbers: tuple[Any, ...]) -> Iterator[tuple[Any, Any, str]]:
    """Yields `(path, numbers, text)` for each text in a JSON value."""
    if isinstance(node, str):
        yield path, numbers, node
    elif isinstance(node, list):
        for index, part in enumerate(node):
            yield from _texts(part, path, (*numbers, index))
    elif isinstance(node, dict):
        beside = tuple((name, value) for name, value in node.items() if name.endswith("index"))
        for name, part in node.items():
            yield from _texts(part, (*path, name), (*numbers, *beside))


def read_cassette(path: Path) -> list[RecordedExchange]:
    """Returns the exchanges of a file. Raises NotFound, InvalidValue for a file that is no cassette."""
    try:
        node = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        raise NotFound(f"There is no cassette {path}: record it first (mode 'once').", code="no_cassette") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{path} is no cassette: it can't be read as YAML ({type(error).__name__}).") from None
    try:
        if node["cassette"] != FORMAT:
            raise InvalidValue(f"{path} has the format {node['cassette']!r}, and this version reads {FORMAT}.")
        return [_exchange(each["request"], each["answer"]) for each in node["exchanges"]]
    except (KeyError, TypeError):
        raise InvalidValue(f"{path} is no cassette: record it anew (mode 'all').") from None


def _exchange(request: Mapping[str, Any], answer: Mapping[str, Any]) -> RecordedExchange:
    return RecordedExchange(
        request["method"], request["url"], request["body"], answer["status"], answer["headers"], answer["body"]
    )


def write_cassette(path: Path, exchanges: Iterable[RecordedExchange]) -> None:
    """Writes a file in one step, so that a reader never finds half of it."""
    node = {"cassette": FORMAT, "exchanges": [exchange.to_node() for exchange in exchanges]}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(HEAD + _dump(node), "utf-8")
    beside.replace(path)


def difference(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Returns what differs between two requests as lines of a unified diff."""
    lines = list(
        difflib.unified_diff(
            _dump(recorded).splitlines(), _dump(now).splitlines(), "recorded request", "request now", lineterm="", n=2
        )
    )
    if len(lines) > LONGEST_DIFFERENCE:
        lines = [*lines[:LONGEST_DIFFERENCE], f"... and {len(lines) - LONGEST_DIFFERENCE} more lines"]
    return "\n".join(lines)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and never an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _dump(node: Any) -> str:
    plain = json.loads(json.dumps(node, ensure_ascii=False))
    return str(yaml.dump(plain, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1 << 30))
