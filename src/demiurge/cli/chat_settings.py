"""The options `--system`, `--evidence` and `--titles`: settings of all chats, put in force with a record and
remembered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.manifest_settings import EVIDENCE, TITLES
from demiurge.bootstrap.system_prompt import SystemPrompt, checked_system_prompt
from demiurge.bootstrap.trust.world_profile import WorldProfile, remember, remembered_words
from demiurge.cli import output
from demiurge.cli.argument import read_text, utf8_text
from demiurge.cli.call_arguments import clipped
from demiurge.cli.portal import Portal
from demiurge.cli.settings import settings
from demiurge.cli.world import RunOptions

__all__ = ["chat_setting_options", "prompt_lines", "put_chat_settings"]

F = TypeVar("F", bound=Callable[..., Any])


def _system_text(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: returns the text of a system prompt. Raises as `read_text` and `checked_system_prompt`."""
    text = utf8_text(context, parameter, value)
    return checked_system_prompt(read_text(text)) if text is not None else None


def chat_setting_options(command: F) -> F:
    """Adds `--system`, `--evidence` and `--titles`, which are fields of `RunOptions`, to a command."""
    command = click.option(
        "--titles",
        type=click.Choice(TITLES),
        help="Whether the model is asked for a chat's title; auto: not a local one. From now on; remembered.",
    )(command)
    command = click.option(
        "--evidence",
        type=click.Choice(EVIDENCE),
        help="What becomes of an answer whose evidence does not hold, from now on in all chats; remembered.",
    )(command)
    return click.option(
        "--system",
        metavar="@FILE|TEXT",
        callback=_system_text,
        help="The system prompt of all chats from now on; remembered.",
    )(command)


def put_chat_settings(world: World, portal: Portal, given: RunOptions) -> None:
    """Puts the system prompt and the settings `evidence` and `titles` of the options in force, also in another process
    that has the world open, and remembers them for this world. Raises as `World.set_chat_settings` and `remember`."""
    system, evidence, titles = given.system, given.evidence, given.titles
    if system is None and evidence is None and titles is None:
        return

    def change(profile: WorldProfile) -> WorldProfile:
        changed = replace(profile, system=system or profile.system, evidence=evidence or profile.evidence)
        return replace(changed, titles=titles or profile.titles)

    before = portal.run(world.backend.read.info())["manifest"]
    portal.run(world.set_chat_settings(system_prompt=system, evidence=evidence, titles=titles))
    remember(os.environ, settings().folder(), change)
    if portal.run(world.backend.read.info())["manifest"] != before:
        words = clipped(remembered_words(change(WorldProfile())))
        output.notice(f"For all chats of this world from now on: {words}. `demiurge init --forget` forgets it.")


def prompt_lines(prompt: SystemPrompt | None) -> Iterator[str]:
    """Yields the system prompt of a world in words: whose it is, and its text."""
    if prompt is None:
        yield "This world has no chats, so it has no system prompt."
        return
    when = datetime.fromtimestamp((prompt.at_ns or 0) / 1e9, UTC).strftime(" at %Y-%m-%d %H:%M:%SZ")
    by = f", set by {prompt.by}{when}" if prompt.by is not None else ""
    yield f"{'The system prompt of the app' if prompt.is_default else f'The system prompt of this world{by}'}:"
    yield output.plain(prompt.text) if prompt.text is not None else "Its text can't be read here."
