"""The command line's reference, made from its own `--help`, so that the page can't say anything else."""

from __future__ import annotations

from collections.abc import Iterator

import click

from demiurge.cli.app import application

WIDTH = 100
HEAD = """# Command line

Nouns, then verbs. Every command takes the global options, in any place; they are listed once, here. VALUE may be
literal text, `@file`, or `@-` for stdin. Exit status: 0 done, 1 failed (one sentence on stderr, or
`{"error": {"code", "message"}}` with `--json`), 2 wrong usage. With `--json` stdout has one document and nothing else:
what tools print goes to stderr.

What was asked for has come to an end where the status is 0. A turn or a call that waits for a person has not: it is 1
with the code `approval_required`, and says how to decide. `approvals approve` and `reject` are about one decision, so
another one that the turn comes to wait for is no failure of theirs. `event send` is done when nothing goes on by
itself: a call that waits by then is a notice, and the status 0. `replay --no-check` prints a difference and the status
is 0.

This page is made by `docs/generate.py` from `demiurge --help`.
"""
GLOBAL = "\nGlobal options:\n"


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_sections(application, None, "demiurge")])


def _sections(command: click.Command, parent: click.Context | None, name: str) -> Iterator[str]:
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        max_content_width=WIDTH,
        terminal_width=WIDTH,
        **command.context_settings,
    )
    text = command.get_help(context)
    if parent is not None:
        text = _without_global_options(text)
    yield f"## {context.command_path}\n\n```text\n{text}\n```\n"
    verbs = command if isinstance(command, click.Group) else getattr(command, "verbs", None)
    if isinstance(verbs, click.Group):
        context = click.Context(verbs, info_name=name, parent=parent)  # `chat` has an argument, its verbs have not
        for verb in verbs.list_commands(context):
            found = verbs.get_command(context, verb)
            assert found is not None
            yield from _sections(found, context, verb)


def _without_global_options(text: str) -> str:
    before, found, after = text.partition(GLOBAL)
    rest = after.partition("\n\n")[2] if found else ""
    return f"{before.rstrip()}\n\n{rest}".rstrip()
