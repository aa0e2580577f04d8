"""Commands that accept the global options anywhere, and groups that import their commands lazily.

`demiurge --json state get M`, `demiurge state --json get M` and `demiurge state get M --json` are the same: each
command has the global options as its own, and all of them write to the one `Settings` of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from demiurge.cli import output
from demiurge.cli.settings import DEFAULT_WORLD, TOKEN_VARIABLE, WORLD_VARIABLE, Settings

__all__ = ["Command", "Group", "LazyGroup", "ReaderGone"]


MEANT: Mapping[str, tuple[str, ...]] = {
    "list": ("ls",),
    **dict.fromkeys(("delete", "del", "remove"), ("rm", "revoke", "untrust", "withdraw")),
    **dict.fromkeys(("get", "cat", "view"), ("show", "get", "cat")),
    **dict.fromkeys(("create", "new"), ("add", "open", "propose", "put")),
}
"""A word of other programs -> the verbs that a noun may have for it."""


class ReaderGone(Exception):
    """The reader of stdout is gone. Click would turn the BrokenPipeError into a SystemExit."""


def _store(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(context: click.Context, _option: click.Parameter, value: Any) -> None:
        if value:
            setattr(context.find_root().ensure_object(Settings), field, value)

    return keep


class GlobalOption(click.Option):
    """An option of every command, stored in the run's `Settings` and not passed on."""

    def __init__(self, *names: str, field: str, **attributes: Any) -> None:
        super().__init__(names, expose_value=False, callback=_store(field), **attributes)


def _global_options() -> list[click.Parameter]:
    where = f"The world: its folder, or the address of its server.  [env: {WORLD_VARIABLE}; default: {DEFAULT_WORLD}]"
    who = f"The token of `tokens add` that says who calls.  [env: {TOKEN_VARIABLE}; default: the local user]"
    return [
        GlobalOption("-w", "--world", field="world", metavar="DIR|URL", help=where),
        GlobalOption("--token", field="token", metavar="TOKEN", help=who),
        GlobalOption("--json", field="json", is_flag=True, help="Print one JSON document; notices go to stderr."),
        GlobalOption(
            "-v",
            "--verbose",
            field="verbose",
            count=True,
            help="Log more, and the errors of tools; -vv: all tracebacks.",
        ),
        GlobalOption("--log-json", field="log_json", is_flag=True, help="Log as JSON lines."),
    ]


class _WithGlobalOptions(click.Command):
    def __init__(self, *args: Any, **attributes: Any) -> None:
        attributes.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **attributes)
        self.params += _global_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the command's own options first, then the global ones under their own title."""
        own: list[tuple[str, str]] = []
        everywhere: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                (everywhere if isinstance(parameter, GlobalOption) else own).append(record)
        for title, records in (("Options", own), ("Global options", everywhere)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Command(_WithGlobalOptions):
    """A verb."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise _with_safe_guesses(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. With --json stdout is reserved for the document before any user's tools are imported."""
        if ctx.find_root().ensure_object(Settings).json:
            output.keep_stdout()
        return super().invoke(ctx)


class Group(_WithGlobalOptions, click.Group):
    """A noun with its verbs. Without a verb it runs `ls`, if it has one that needs no argument."""

    command_class = Command

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(cmd, name)
        if self._lists:
            self.subcommand_metavar = "[COMMAND] [ARGS]..."

    @property
    def _lists(self) -> bool:
        verb = self.commands.get("ls")
        return verb is not None and not any(parameter.required for parameter in verb.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self._lists and not self.make_parser(ctx).parse_args(list(args))[1]:
            args = [*args, "ls"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the verb. Raises click.NoSuchCommand with the verbs that are meant by a word of other programs."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            word = error.command_name
            if meant := [repr(verb) for verb in MEANT.get(word, ()) if verb in self.commands]:
                message = f"No such command {word!r}. Did you mean {' or '.join(meant)}?"
                raise click.NoSuchCommand(word, message, ctx=ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _WithGlobalOptions.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def _with_safe_guesses(error: click.NoSuchOption) -> click.NoSuchOption:
    """Returns the error without `--yes`, which approves every call, among the options that click suggests."""
    safe = [name for name in error.possibilities or () if name != "--yes"]
    return click.NoSuchOption(error.option_name, possibilities=safe, ctx=error.ctx)


class LazyGroup(Group):
    """`nouns` maps a name to one line of help; the noun's command is `command` in the module `package.name`."""

    def __init__(self, *args: Any, nouns: Mapping[str, str], package: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._nouns, self._package = nouns, package

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._nouns)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command. Raises click.NoSuchCommand with the similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=self._nouns, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._nouns:
            return None
        command = import_module(f"{self._package}.{cmd_name}").command
        assert isinstance(command, click.Command)
        command.help = command.help or self._nouns[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self._nouns.items()))
