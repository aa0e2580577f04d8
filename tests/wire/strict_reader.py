"""A reader of the data-stream protocol that is as strict as the browser's, and stricter about order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@dataclass
class Card:
    name: str
    args_text: str | None = None
    result: Any = None
    answered: bool = False
    is_error: bool = False

    @property
    def args(self) -> Any:
        return json.loads(self.args_text or "")


@dataclass
class Page:
    """What is shown. `feed` takes the bytes as the network cuts them and fails on any line out of order."""

    text: str = ""
    cards: dict[str, Card] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    data: list[Any] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    finish: Any = None
    rest: bytes = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        for line in lines:
            assert line.isascii()
            code, separator, value = line.decode().partition(":")
            assert separator
            self._read(code, json.loads(value, parse_constant=_refuse))

    def close(self) -> None:
        assert self.rest == b""
        assert self.finish is not None

    def _read(self, code: str, value: Any) -> None:
        assert self.finish is None, "a line after the finish of the message"
        assert code == "d" or not self.steps, "a line after the finish of the step"
        if code == "0":
            self.text += value
        elif code == "2":
            self.data += value
        elif code == "3":
            self.errors.append(value)
        elif code == "b":
            assert set(value) == {"toolCallId", "toolName"}
            assert value["toolCallId"] not in self.cards, "a second begin"
            self.cards[value["toolCallId"]] = Card(value["toolName"])
        elif code == "c":
            card = self.cards[value["toolCallId"]]
            assert card.args_text is None
            assert not card.answered, "arguments after the result"
            card.args_text = value["argsTextDelta"]
        elif code == "a":
            card = self.cards[value["toolCallId"]]
            assert card.args_text is not None, "a result before the arguments"
            assert not card.answered, "a second result"
            card.result, card.answered, card.is_error = value["result"], True, value.get("isError", False)
        else:
            assert code in ("d", "e")
            assert all(card.answered for card in self.cards.values()), "finished with a call that nobody answered"
            if code == "e":
                self.steps.append(value)
            else:
                assert self.steps
                self.finish = value


def page_of(body: bytes) -> Page:
    page = Page()
    page.feed(body)
    page.close()
    return page
