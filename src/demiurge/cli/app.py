"""The `demiurge` command: its nouns, and its handling of errors.

Every error ends in one sentence (or one JSON object) and an exit status: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import click

from demiurge.cli import output
from demiurge.cli.command import LazyGroup, ReaderGone
from demiurge.cli.failure import FAILED, CommandFailure, explain
from demiurge.cli.hints import runnable
from demiurge.cli.settings import Settings

__all__ = ["application", "main"]

NOUNS = {
    "init": "Make a world.",
    "info": "Show what is in force in a world.",
    "doctor": "Check this machine, and say how to repair what is wrong.",
    "chat": "Talk with the agent of a world.",
    "approvals": "Decide on calls that wait for a person.",
    "doubts": "Settle effects in doubt: nobody knows whether they took place.",
    "event": "Send events.",
    "blob": "Store and read raw bytes by address.",
    "state": "Read the state of a module.",
    "ws": "Show and edit the files of a world's workspaces.",
    "journal": "Read, check, export and archive the journal.",
    "replay": "Compute the world again from its journal and compare.",
    "fork": "Make a new world with the past of this one.",
    "gc": "Remove blobs and snapshots that nothing refers to.",
    "erase": "Remove the bytes of a blob for good.",
    "losses": "List lost files of a world, and go on without them.",
    "trace": "Show the consequences of an event, and what it waits for.",
    "manifest": "Show, check and set the manifest of a world.",
    "defs": "List and show the definitions of a world.",
    "plan": "Show the steps of a world plan.",
    "tools": "List, show and call the tools of a world; propose and approve prompt tools.",
    "issues": "List, open, comment on and close issues; decide by them.",
    "cost": "Show what the answers of models cost.",
    "policy": "Check, explain, try, draft and observe the tool policy; explain the world's policy.",
    "secrets": "Store the secrets that effects need, in your secret vault.",
    "connections": "List, add, revoke and choose accounts that tools may use.",
    "mcp": "Add MCP servers and trust their tools; serve the world to MCP clients.",
    "serve": "Serve the world over HTTP, with pages for a browser.",
    "tokens": "Say who may call the world over HTTP.",
    "webhooks": "Tell a URL when a call waits for a person.",
    "model": "Fetch, list, stop and remove the local model.",
}


@click.command(cls=LazyGroup, nouns=NOUNS, package="demiurge.cli", name="demiurge")
@click.version_option(package_name="demiurge-runtime", message="%(version)s")
@click.pass_context
def application(context: click.Context) -> None:
    """A durable agent that uses governed tools. Start with `demiurge chat`."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line; never returns. `arguments` default to those of the process. With --json stdout holds the
    document alone until the process ends: output of exit handlers goes to stderr too."""
    try:
        _run(arguments)
    except (SystemExit, KeyboardInterrupt) as leaving:
        status = leaving.code if isinstance(leaving, SystemExit) else FAILED
        if arguments is None:
            _keep_status(status)
        raise SystemExit(status) from None
    finally:
        if arguments is not None:
            output.give_stdout_back()


def _run(arguments: Sequence[str] | None) -> NoReturn:
    words = list(sys.argv[1:] if arguments is None else arguments)
    settings = Settings()
    _leave_out_httpx_command()
    output.tolerate_encoding()
    try:
        application.main(words, prog_name="demiurge", standalone_mode=False, obj=settings)
        output.stdout().flush()
    except click.exceptions.Exit as leaving:
        sys.exit(leaving.exit_code)
    except (BrokenPipeError, ReaderGone):
        _drop_output()
        sys.exit(1)
    except output.OutputLost as lost:
        _drop_output()
        output.complain(lost.message)
        sys.exit(1)
    except BaseException as error:  # noqa: BLE001 - the last line of defence: nobody sees a traceback unasked
        settings.json = settings.json or "--json" in words
        _fail(settings, explain(error))
    sys.exit(0)


def _keep_status(status: Any) -> None:
    """Makes a late Ctrl-C end the wait for threads that still run, with this exit status; after it, do nothing."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda *_: os._exit(status))
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def _leave_out_httpx_command() -> None:
    """Keeps httpx from importing its own command line, which takes a third of its loading time, with rich in it."""
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: importing it raises ImportError


def _drop_output() -> None:
    """Discards unwritten output, which would be tried again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), output.stdout().fileno())


def _fail(settings: Settings, failure: CommandFailure) -> NoReturn:
    from demiurge.cli import logs  # imported after a failure only: loading the masks of secrets takes half a second

    logs.configure(settings)
    logs.trace(failure)
    message, text = runnable(failure.message, settings), runnable(failure.text, settings)
    failure = replace(failure, message=message, text=text)
    if settings.json:
        try:
            kind = {"type": "error"} if settings.json_lines else {}
            output.document({**kind, **failure.document()}, in_one_line=settings.json_lines)
        except output.OutputLost:
            _drop_output()
            output.complain(failure.text)
    elif isinstance(failure.cause, click.exceptions.NoArgsIsHelpError):
        click.echo(failure.text, err=True)
    else:
        output.complain(failure.text)
    sys.exit(failure.status)
