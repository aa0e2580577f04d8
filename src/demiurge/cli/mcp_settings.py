"""The settings of an MCP server from the words of a command line, and what this machine lacks for them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from demiurge.bootstrap.secrets import holds
from demiurge.cli.hints import runnable
from demiurge.errors import InvalidValue
from demiurge.mcp.settings import (
    Limits,
    SamplingGrant,
    ServerSettings,
    SettingValue,
    looks_like_credential,
    parse_reference,
)

__all__ = ["limit_options", "missing_values", "settings_of"]

F = TypeVar("F", bound=Callable[..., Any])

_SECRET: Final = "secret:"  # noqa: S105 - the mark of a name
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")

_LIMITS: Final = (
    ("timeout", "timeout_s", float, "The seconds that a call may take."),
    ("max-parallel", "max_parallel", int, "The calls at the same time."),
    ("per-minute", "per_minute", int, "The calls in a minute."),
    ("max-result-bytes", "max_result_bytes", int, "The bytes of a result."),
    ("refresh", "refresh_s", float, "The age in seconds at which the list of tools is read again before a call."),
)


_SAMPLING: Final = (
    ("sampling", "sampling", "The tokens that it may have a model use during a call.  [default: no model]"),
    ("sampling-requests", "sampling_requests", "How often it may ask a model during a call.  [default: 8]"),
)
_ROOTS: Final = "It may ask which folders a client of the gateway works in."


def limit_options(command: F) -> F:
    """Adds the options of `Limits`, and of what a server may ask during a call, to a command."""
    default = Limits()
    command = click.option("--roots", is_flag=True, help=_ROOTS)(command)
    for option, field, about in reversed(_SAMPLING):
        command = click.option(f"--{option}", field, type=int, metavar="N", help=about)(command)
    for option, field, kind, about in reversed(_LIMITS):
        usual = getattr(default, field)
        shown = f"{about}  [default: {'no limit' if usual is None else usual}]"
        command = click.option(f"--{option}", field, type=kind, metavar="N", help=shown)(command)
    return command


def settings_of(
    name: str,
    command: Sequence[str],
    url: str | None,
    *,
    env: Sequence[str],
    headers: Sequence[str],
    cwd: str | None,
    connection: str | None,
    limits: Mapping[str, Any],
) -> ServerSettings:
    """Returns the settings. A command runs in the present folder unless `cwd` names another one:
    a program or a module that lies in whatever folder somebody is in later is not the one that was added.
    Raises click.UsageError, InvalidValue (`literal_credential`: a value is likely a key or a token)."""
    if bool(command) is (url is not None):
        both = "; a server has one of the two" if command else ""
        raise click.UsageError(
            f"After its name, give the server's command behind `--`, or its address with --url{both}."
        )
    if url is not None and (env or cwd is not None):
        raise click.UsageError("--env and --cwd are for a server that is started here, not for one with --url.")
    if url is None and (headers or connection is not None):
        raise click.UsageError("--header and --connection are for a server with --url.")
    if cwd is None and command:
        cwd = "."
    given = {field: value for field, value in limits.items() if value is not None}
    roots, tokens, requests = (given.pop(field, None) for field in ("roots", "sampling", "sampling_requests"))
    if requests is not None and tokens is None:
        raise click.UsageError("--sampling-requests goes with --sampling TOKENS.")
    more = {"requests": requests} if requests is not None else {}
    return ServerSettings(
        name=name,
        transport="stdio" if url is None else "http",
        command=tuple(command),
        env=_values(env, "=", "--env NAME=VALUE"),
        cwd=str(Path(cwd).expanduser().absolute()) if cwd is not None else None,
        url=url,
        headers=_values(headers, ":", "--header 'Name: value'"),
        connection_id=connection,
        limits=Limits(**given),
        sampling=SamplingGrant(tokens, **more) if tokens is not None else None,
        roots=bool(roots),
    )


def missing_values(said: ServerSettings, told: str = "") -> Iterator[str]:
    """Yields what the settings of a server name and this machine lacks, with how to set it. `told`: a sentence that was
    printed; what it names is left out."""
    for secret in said.secrets:
        if secret.alias not in told and not holds(os.environ, secret.alias, secret.version):
            version = f" --version {secret.version}" if secret.version != 1 else ""
            yield runnable(f"The secret {secret.alias} is not set: `demiurge secrets set {secret.alias}{version}`.")
    texts = [*said.command, said.url or "", *said.env.values(), *said.headers.values()]
    for inside in (each for text in texts if isinstance(text, str) for each in _REFERENCE.findall(text)):
        variable, default = parse_reference(inside)
        if isinstance(variable, str) and default is None and variable not in os.environ and variable not in told:
            yield f"The variable {variable} is not set in the environment."


def _values(words: Sequence[str], separator: str, form: str) -> dict[str, SettingValue]:
    """Returns values by name. A value `secret:NAME` names a secret."""
    found: dict[str, SettingValue] = {}
    for word in words:
        name, mark, value = word.partition(separator)
        name = name.strip()
        if not mark or not _NAME.fullmatch(name):
            raise click.UsageError(f"{form} takes a name and a value; a value secret:NAME names a secret.")
        if name in found:
            raise click.UsageError(f"{name} is given twice.")
        value = value.strip() if separator == ":" else value
        if value.startswith(_SECRET):
            secret, _ = parse_reference(value)
            found[name] = secret
            continue
        if looks_like_credential(name, value):
            raise InvalidValue(
                f"The value of {name} looks like a key or a token, and arguments are visible to others. Put it into "
                f"your vault with `demiurge secrets set {name.lower()}`, and write {name}{separator}"
                f"{' ' * (separator == ':')}secret:{name.lower()} here.",
                code="literal_credential",
            )
        found[name] = value
    return found
