"""A person decides at the terminal: on a call, by its card, or on a question of the model.

Invariant: nothing is decided by accident. What was typed before the card is dropped, Enter alone decides nothing, and a
call is allowed only after its whole card was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from rich.cells import chop_cells
from rich.text import Text

from demiurge.bootstrap import World
from demiurge.cli import output
from demiurge.cli.approval import Decision
from demiurge.cli.portal import Portal
from demiurge.cli.question import choice_text, question_lines
from demiurge.cli.terminal.card import CardFacts, card_facts, card_lines, in_order, more_facts
from demiurge.cli.terminal.editor import edited, notes, without_notes
from demiurge.cli.terminal.form import WHY, fill_in
from demiurge.cli.terminal.input_line import ask
from demiurge.cli.terminal.keyboard import drop_typed_ahead, without_echo
from demiurge.cli.terminal.rule_offer import offered_rule
from demiurge.cli.terminal.screen import Screen
from demiurge.cli.terminal.why import why_lines
from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.tools.argument_problem import argument_problem
from demiurge.values import canonical_json

__all__ = ["PersonAtTerminal"]

KEYS: Final = "y once, a allow in this chat, e edit, n refuse, ? why: "
TAINTED_KEYS: Final = "y once, e edit, n refuse, ? why: "
EDITED_KEYS: Final = "y run it so, e edit again, n refuse, ? why: "
DECLINE: Final = "/decline"


class PersonAtTerminal:
    """The person at the terminal of a world. `policy_name` says whose tool policy is in force."""

    def __init__(self, world: World, portal: Portal, policy_name: str) -> None:
        self._world, self._portal, self._policy_name = world, portal, policy_name
        self._screen = Screen(output.stdout())

    def decide(self, pending: Mapping[str, Any]) -> Decision:
        """Returns the decision on a waiting call. Raises EOFError (Ctrl-D: later), KeyboardInterrupt."""
        facts = card_facts(self._world, pending, self._policy_name)
        arguments_json: str | None = None
        left = self._begin(card_lines(self._screen, pending, facts))
        while True:
            verdict, _, rest = self._ask(left, _keys(pending, arguments_json)).partition(" ")
            verb, rest = verdict.lower(), rest.strip()
            if verb in ("n", "no"):
                return Decision(False, rest or ask(self._portal, "Why? The model is told (Enter: no reason): "))
            if verb in ("?", "why"):
                told = why_lines(self._world, self._portal, pending["tool"], pending.get("tainted", ()))
                for line in (*told, *more_facts(pending)):
                    self._say(line)
            elif verb in ("", "m", "more") and left:
                left = self._more(left)
            elif left:
                self._say(f"{len(left)} lines of the call are below: Enter shows them. n refuses it, ? says why.")
            elif verb in ("y", "yes"):
                return Decision(True, rest, arguments_json)
            elif verb in ("a", "allow") and arguments_json is None:
                terms = offered_rule(self._portal, self._screen, pending, rest)
                if terms is not None:
                    return Decision(True, rule=terms)
            elif verb in ("e", "edit"):
                changed = self._edit(pending, facts, arguments_json or pending["arguments_json"])
                if changed is not None:
                    arguments_json = changed
                    shown = {**pending, "arguments_json": changed}
                    names = _changed(pending["arguments_json"], changed)
                    left = self._begin(card_lines(self._screen, shown, facts, changed=names))
            else:
                self._say("Type y, a, e, n or ?, and Enter. Ctrl-D leaves the call waiting, Ctrl-C stops the turn.")

    def answer(self, asks: Mapping[str, Any]) -> Decision | str:
        """Returns the answer to a question; a Decision rejects the question. Raises EOFError (Ctrl-D: later),
        KeyboardInterrupt."""
        choices, takes_words = asks["choices"] or (), asks["allow_other"] or not asks["choices"]
        head = self._screen.lines(Text.assemble(("? ", "bold yellow"), ("The model asks:", "bold")))
        asked = [row for line in question_lines(asks) for row in chop_cells(line, self._screen.width)]
        left = self._begin([*head, *asked])
        hint = ("a number, or your own words" if takes_words else "a number") if choices else "your own words"
        while True:
            text = self._ask(left, f"Your answer ({hint}; {DECLINE} rejects): ")
            verb, _, reason = text.partition(" ")
            if verb == DECLINE:
                return Decision(False, reason.strip())
            if left:
                left = self._more(left)
            elif text.isdecimal() and 1 <= int(text) <= len(choices):
                return choice_text(asks, int(text))
            elif text and (takes_words or text in choices):
                return text

    def fill_in(self, asked: Mapping[str, Any]) -> Decision | dict[str, Any]:
        """Returns the answers to the questions of a tool; a Decision rejects the call. Raises as `answer`."""

        def show(lines: list[str]) -> None:
            rows = [row for line in lines for row in chop_cells(line, self._screen.width)]
            left = self._more(rows)
            while left:
                self._ask(left, "")
                left = self._more(left)

        def line(prompt: str) -> str:
            while (text := ask(self._portal, prompt)) == WHY:
                for said in why_lines(self._world, self._portal, asked["tool"]):
                    self._say(said)
            return text

        return fill_in(asked, show, line)

    def waiting(self) -> AbstractContextManager[None]:
        """Returns a context in which keys are not echoed."""
        return without_echo()

    def _begin(self, lines: list[str]) -> list[str]:
        """Shows the first page, and returns the lines that are left."""
        return self._more(["", *lines])

    def _more(self, lines: list[str]) -> list[str]:
        """Shows a page, and returns the lines that are left. What was typed before the page was shown is dropped."""
        page = max(4, self._screen.height - 3)
        if len(lines) <= page + 1:
            page = len(lines)
        self._print(lines[:page])
        drop_typed_ahead()
        return lines[page:]

    def _ask(self, left: list[str], question: str) -> str:
        more = f"Enter shows more ({len(left)} lines), n refuses, ? why: "
        return ask(self._portal, more if left else question)

    def _print(self, lines: list[str]) -> None:
        self._screen.print(lines)

    def _say(self, text: str) -> None:
        self._print(self._screen.lines(Text(f"  {text}", style="dim")))

    def _edit(self, pending: Mapping[str, Any], facts: CardFacts, text: str) -> str | None:
        """Returns other arguments that fit the tool's schema. The editor opens again with the person's text, under what
        is wrong with it, until they fit; None if the person leaves the text as it is, or empties it."""
        try:
            before = canonical_json.parse_object(text)
            shown = {name: before[name] for name in in_order(facts.schema, before)}
            given, problem = output.as_json(shown, indent=2) + "\n", ""
            while True:
                said = without_notes(edited(notes(problem) + given))
                if said.strip() in ("", given.strip()):
                    self._say(
                        "The edit was given up; the arguments are as before." if problem else "Nothing was changed."
                    )
                    return None
                given, problem = said, ""
                try:
                    after = canonical_json.parse_object(given)
                    wrong = argument_problem(facts.schema, after)
                    problem = f"The changed arguments do not fit the schema: {wrong}." if wrong else ""
                except InvalidValue as error:
                    problem = f"The changed arguments are no JSON object: {error}"
                if problem:
                    self._say(output.plain(problem))
                elif after == before:
                    self._say("Nothing was changed.")
                    return None
                else:
                    return canonical_json.encode(after).decode()
        except DemiurgeError as error:
            self._say(output.plain(str(error)))
            return None


def _keys(pending: Mapping[str, Any], edited_json: str | None) -> str:
    """Returns the keys that a person may type. No standing rule is made from a call of a tainted turn."""
    if edited_json is not None:
        return EDITED_KEYS
    return TAINTED_KEYS if pending.get("tainted") else KEYS


def _changed(before: str, after: str) -> set[str]:
    old, new = canonical_json.parse_object(before), canonical_json.parse_object(after)
    return {name for name in new if name not in old or old[name] != new[name]}
