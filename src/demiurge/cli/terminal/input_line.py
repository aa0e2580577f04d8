"""The line in which a person types: a message of one or more lines, or an answer to a question.

A paste is one message. Enter sends; Alt-Enter, or a backslash before Enter, begins a new line. A terminal that can do
nothing but print (`TERM=dumb`) gets a plain prompt.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.filters import Always, Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from demiurge.cli import output
from demiurge.cli.portal import Portal

__all__ = ["InputLine", "MessageLine", "PlainLine", "ask"]

PROMPT: Final = "> "
STYLE: Final = Style.from_dict({"prompt": "bold", "bottom-toolbar": "noreverse", "bottom-toolbar.text": ""})


class InputLine(Protocol):
    """A place where messages are typed."""

    def read(self) -> str:
        """Returns the next message. Raises EOFError (Ctrl-D), KeyboardInterrupt."""


class PlainLine:
    """The prompt of a terminal that can only print."""

    def read(self) -> str:
        return input(PROMPT)


class MessageLine:
    """The prompt with history, completion, and a line below it that `below` makes."""

    def __init__(self, portal: Portal, history: History | None, completer: Completer, below: Callable[[], str]) -> None:
        self._portal = portal
        self._session: PromptSession[str] = PromptSession(
            FormattedText([("class:prompt", PROMPT)]),
            multiline=True,
            prompt_continuation="  ",
            history=history,
            completer=completer,
            complete_while_typing=Condition(self._is_command),
            reserve_space_for_menu=4,
            key_bindings=_keys(),
            bottom_toolbar=lambda: FormattedText([("", output.plain(below()))]),
            style=STYLE,
            enable_suspend=True,
            include_default_pygments_style=False,
        )
        self._session.layout.current_window.dont_extend_height = Always()  # so that the line below stays near

    def _is_command(self) -> bool:
        return self._session.default_buffer.text.startswith("/")

    def read(self) -> str:
        """Returns the next message. Raises EOFError (Ctrl-D), KeyboardInterrupt."""
        with self._portal.lent():
            return self._session.prompt()


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif buffer.document.char_before_cursor == "\\" and not buffer.document.current_line_after_cursor:
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("tab")
    def complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_next()
            return
        found = list(buffer.completer.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
        if len(found) == 1:
            buffer.apply_completion(found[0])
        else:
            buffer.start_completion(insert_common_part=True)

    return keys


def ask(portal: Portal, question: str) -> str:
    """Returns the line that a person types after `question`, without the spaces around it. It is not in the history.
    Raises EOFError (Ctrl-D), KeyboardInterrupt."""
    if not (output.is_terminal(sys.stdin) and output.is_terminal(output.stdout())):
        return input(question).strip()
    session: PromptSession[str] = PromptSession(include_default_pygments_style=False, reserve_space_for_menu=0)
    with portal.lent():
        return session.prompt(FormattedText([("bold", question)])).strip()
