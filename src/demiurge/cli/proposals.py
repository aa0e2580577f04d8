"""`demiurge tools propose`, `proposals`, `review`, `test` and the decisions: a change of a prompt tool, from its author
to the user who approves it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict
from typing import Any, Final

import click

from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.bootstrap.prompt_tools import PromptToolRegistry
from demiurge.cli import output
from demiurge.cli.argument import parse_json, read_bytes, utf8_text
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.model_runs import say_budgets, try_cases
from demiurge.cli.proposal_lines import check_lines, one_line, proposal_lines, review_lines, tried_lines, when
from demiurge.cli.settings import settings
from demiurge.cli.world import Opened, opened
from demiurge.errors import InvalidValue
from demiurge.registry.core_ids import require_unlocked
from demiurge.registry.proposal import TARGETS
from demiurge.registry.tool_diff import FieldDiff, to_json

__all__ = ["APPROVE", "PROPOSAL_COMMANDS", "READ", "agreed_digest", "require_taken_over"]

STATES: Final = (
    *("chief_review", "user_decision", "returned", "approving"),
    *("approved", "rejected", "withdrawn", "stale"),
)

_ANSWERS: Final = ("sensible", "overlaps", "violates", "changes")
_ID_FIELDS: Final = ("id", "targetId", "toolId", "tool", "prompts")
"""The fields of a document that may name the tool that it is about."""


def _text(name: str, about: str, *, required: bool = False) -> Callable[..., Any]:
    return click.option(f"--{name}", metavar="T", callback=utf8_text, required=required, help=about)


_ASKS: Final = "Without --digest the proposal is shown and you are asked, which takes a terminal."
_proposal_id = click.argument("proposal_id", metavar="PID", callback=utf8_text)
_digest = click.option("--digest", metavar="D", callback=utf8_text, help="The digest of the revision that you read.")


@click.command(name="propose", cls=Command)
@click.argument("proposal", metavar="PROPOSAL")
@click.option("--revise", metavar="PID", callback=utf8_text, help="The proposal that this is a revision of.")
def propose(proposal: str, revise: str | None) -> None:
    """Propose a prompt tool, or the change of one: PROPOSAL is JSON, @file or @-.

    It is checked at once; then the Chief of Staff reviews it, and the user decides. Nothing is live before. A world is
    made where there is none.
    """
    data, where = read_bytes(proposal), proposal if proposal.startswith("@") else "PROPOSAL"
    for text in _spellings(data):
        require_unlocked(text)
    given = parse_json(data, where)
    if not isinstance(given, dict):
        raise InvalidValue(f"{where}: a proposal is a JSON object.", code="invalid_proposal")
    with opened(create=True) as (world, portal):
        made = portal.run(world.prompt_tools.propose(given, revise))
    lines = [f"{made.id} proposes {made.kind} {made.tool}, revision {made.revision}: {made.state}.", made.digest]
    output.result(asdict(made), *lines)
    if made.checks is not None and not made.checks["passed"]:
        output.notice(f"The checks did not pass: `demiurge tools review {made.id}` says why.")


@click.command(name="copy", cls=Command)
@click.argument("tool_id", metavar="ID", callback=utf8_text)
@click.argument("new_id", metavar="NEW_ID", callback=utf8_text)
@click.option("--reason", metavar="T", required=True, callback=utf8_text, help="Why, in 20 to 2000 characters.")
@click.option("--layer", type=click.Choice(TARGETS), default="user", help="The layer of the copy (default: user).")
def copy(tool_id: str, new_id: str, reason: str, layer: str) -> None:
    """Propose a copy of a prompt tool, such as a core tool, under an id of its own. It is reviewed like any other.

    `tools propose --revise` changes its text before it is approved.
    """
    with opened(create=True) as (world, portal):
        made = portal.run(world.prompt_tools.copy(tool_id, new_id, reason, layer))
    output.result(asdict(made), f"{made.id} proposes {made.tool}, a copy of {tool_id}: {made.state}.", made.digest)


@click.command(name="proposals", cls=Command)
@click.option("--state", type=click.Choice(STATES), help="Only proposals in this state.")
@click.option("--tool", metavar="ID", callback=utf8_text, help="Only proposals for this prompt tool.")
def proposals(state: str | None, tool: str | None) -> None:
    """List the proposals, newest first."""
    with opened() as (world, portal):
        found = portal.run(world.prompt_tools.proposals(state, tool))
    rows = [
        (
            *(view.id, f"{view.state}{' (stale)' if view.is_stale else ''}", view.kind, view.tool, view.target),
            *(str(view.revision), one_line(view.submitted_by), when(view.submitted_at_ms)),
        )
        for view in found
    ]
    header = ("PROPOSAL", "STATE", "KIND", "TOOL", "LAYER", "REVISION", "BY", "AT")
    lines = output.table(rows, header) if rows else ["There is no such proposal."]
    output.result({"proposals": [asdict(view) for view in found]}, *lines)


@click.command(name="review", cls=Command)
@_proposal_id
@click.option("--recommend", type=click.Choice(("approve", "modify", "reject")), help="Record the Chief's review.")
@_text("sensible", "The review's answer: is the tool sensible?")
@_text("overlaps", "The review's answer: does it overlap with another tool?")
@_text("violates", "The review's answer: does it violate a rule or a core tool?")
@_text("changes", "The review's answer: what has to change?")
@_text("notes", "Further words of the review.")
@click.option("--skip", is_flag=True, help="Act as Chief of Staff too, where there is none.")
@_text("reason", "Why the review is skipped.")
@click.option("--by-model", is_flag=True, help="Ask a model for the review; it is advice, and the user decides.")
@_text("provider", "With --by-model: the provider (default: the world's).")
@_text("model", "With --by-model: the model (default: the world's).")
@_digest
def review(
    proposal_id: str,
    recommend: str | None,
    skip: bool,
    reason: str | None,
    by_model: bool,
    digest: str | None,
    **given: str | None,
) -> None:
    """Print a proposal with its checks, its review, its differences and what is missing; or record the review.

    With --recommend and the four answers the Chief of Staff reviews it. Where there is no Chief of Staff, a user goes
    on with --skip and --reason as both. Both are about the revision with this --digest: without it the proposal is
    shown and you are asked, which takes a terminal. With --by-model a model reviews the present revision, or the one
    with this --digest; its review is advice.
    """
    answers = {name: given[name] for name in _ANSWERS}
    missing = [f"--{name}" for name in _ANSWERS if answers[name] is None]
    if recommend is None and (given["notes"] is not None or len(missing) < len(_ANSWERS)):
        raise click.UsageError("A review needs --recommend.")
    if recommend is not None and (missing or skip):
        raise click.UsageError(f"--recommend goes with {', '.join(missing)}." if missing else "A review skips nothing.")
    if by_model and (recommend is not None or skip):
        raise click.UsageError("--by-model goes with neither --recommend nor --skip.")
    if not by_model and (given["provider"] or given["model"]):
        raise click.UsageError("--provider and --model go with --by-model.")
    if skip != (reason is not None):
        raise click.UsageError("--skip and --reason go together.")
    with opened() as opening:
        world, portal = opening
        tools = world.prompt_tools
        if recommend is None and not skip and not by_model:
            view = portal.run(tools.proposal(proposal_id))
            diffs = _differences(opening, view)
            output.result({**asdict(view), "diff": to_json(diffs)}, *proposal_lines(view, diffs))
            return
        if by_model:
            about = digest or portal.run(tools.proposal(proposal_id)).digest
            view = portal.run(tools.ask_model(proposal_id, about, given["provider"], given["model"]))
            output.result(asdict(view), *review_lines(view))
            say_budgets(opening, view)
            return
        read = digest or agreed_digest(opening, proposal_id, "skip the review" if skip else f"recommend to {recommend}")
        if recommend is not None:
            said = {name: str(text) for name, text in answers.items()}
            view = portal.run(tools.review(proposal_id, read, recommend, **said, notes=given["notes"] or ""))
        else:
            view = portal.run(tools.skip_review(proposal_id, read, str(reason)))
    done = "act as both Chief of Staff and user for" if skip else "reviewed"
    output.result(asdict(view), f"You {done} {view.id} ({view.digest}): {view.state}.")


@click.command(name="test", cls=Command)
@_proposal_id
@click.option("--case", metavar="C", callback=utf8_text, help="Record a verdict on this manual test case instead.")
@click.option("--pass/--fail", "passed", default=None, help="The verdict on --case.")
@_text("note", "What you looked at, and what you saw.")
@click.option("--on-model", is_flag=True, help="Try the automatic test cases on a model instead.")
@_text("provider", "With --on-model: the provider (default: the world's).")
@_text("model", "With --on-model: the model (default: the world's).")
@_digest
def test(
    proposal_id: str,
    case: str | None,
    passed: bool | None,
    note: str | None,
    on_model: bool,
    provider: str | None,
    model: str | None,
    digest: str | None,
) -> None:
    """Run the checks of a proposal again and print their report. Exits with 1 if they did not pass.

    With --case, --pass or --fail, and --note, it records your verdict on a manual test case of the revision with this
    --digest: without it the proposal is shown and you are asked, which takes a terminal.

    With --on-model the automatic cases are tried on a model, which may cost money; what comes of them is advice.
    """
    if len({case is None, passed is None, note is None}) > 1:
        raise click.UsageError("A verdict takes --case, --pass or --fail, and --note.")
    if on_model and case is not None:
        raise click.UsageError("A verdict is a person's: --on-model goes without --case.")
    if not on_model and (provider or model):
        raise click.UsageError("--provider and --model go with --on-model.")
    with opened() as opening:
        world, portal = opening
        tools = world.prompt_tools
        if case is not None:
            said = "passed" if passed else "failed"
            read = digest or agreed_digest(opening, proposal_id, f"say that {case} {said}")
            view = portal.run(tools.record_verdict(proposal_id, read, case, bool(passed), str(note)))
            output.result(asdict(view), f"The test case {case} of {view.id} {said}, you said. It is recorded.")
            return
        if on_model:
            view = portal.run(try_cases(tools, proposal_id, digest, provider, model))
            output.result(asdict(view), *tried_lines(view))
            say_budgets(opening, view)
            return
        view = portal.run(tools.run_checks(proposal_id))
    is_passed = view.checks is not None and view.checks["digest"] == view.digest and view.checks["passed"]
    shown = {"id": view.id, "digest": view.digest, "passed": is_passed, "checks": view.checks}
    if is_passed:
        output.result(shown, *check_lines(view))
        return
    if not settings().json:
        output.result(shown, *check_lines(view))
    raise OutcomeError("checks_failed", f"The checks of {view.id} did not pass.", shown)


APPROVE: Final = "you have read its whole text, and approve it"
"""The words to which a person agrees who approves a proposal at a terminal."""
READ: Final = click.option("--read", is_flag=True, help="Say that you have read the whole text of the tool; recorded.")

Decide = Callable[[PromptToolRegistry, str, str, str], Coroutine[Any, Any, ToolProposalView]]


def _decision(
    name: str, about: str, why: str, decide: Decide, said: Callable[[ToolProposalView], str], *, takes_reason: bool
) -> click.Command:
    """Returns a command that decides on a proposal. `takes_reason`: it needs one; `said`: what is told afterwards."""

    @click.command(name=name, cls=Command, help=f"{about}\n\n{_ASKS}")
    @_proposal_id
    @_digest
    @_text("reason", why)
    def command(proposal_id: str, digest: str | None, reason: str | None) -> None:
        with opened() as opening:
            given = reason if takes_reason else reason or ""
            read, because = _agreed(opening, proposal_id, name, digest, given)
            view = opening.portal.run(decide(opening.world.prompt_tools, proposal_id, read, because))
        output.result(asdict(view), said(view))

    return command


@click.command(name="approve", cls=Command)
@_proposal_id
@_digest
@READ
@_text("reason", "Why; it is recorded.")
def approve(proposal_id: str, digest: str | None, read: bool, reason: str | None) -> None:
    """Approve a proposal: the tool is then live. Takes the role user.

    You say with --read that you have read the whole text of the tool: no check can tell that it is safe. Without
    --digest the proposal is shown and you are asked, which takes a terminal.
    """
    with opened() as opening:
        has_read = read or digest is None
        about, because = _agreed(opening, proposal_id, APPROVE, digest, reason or "")
        view = opening.portal.run(opening.world.prompt_tools.approve(proposal_id, about, because, read=has_read))
    require_taken_over(view)
    live = "is deleted" if view.kind == "delete" else "is live"
    output.result(asdict(view), f"{view.id} is approved: {view.tool} {live} in the layer {view.target}.")


def _agreed(opening: Opened, proposal_id: str, verb: str, digest: str | None, reason: str | None) -> tuple[str, str]:
    """Returns the digest and the reason of a decision: what was given, else what a person says on the terminal. Raises
    as `agreed_digest`; click.UsageError if a reason is missing."""
    if digest is None:
        digest = agreed_digest(opening, proposal_id, verb)
        reason = input("  Why? ").strip() if reason is None else reason
    if reason is None:
        raise click.UsageError("Say why with --reason: the author is told.")
    return digest, reason


def agreed_digest(opening: Opened, proposal_id: str, verb: str) -> str:
    """Shows a proposal, asks whether to go on, and returns the digest of what was shown. Raises OutcomeError
    (`digest_missing`: nobody can be asked; `stopped`: the answer is no)."""
    world, portal = opening
    view = portal.run(world.prompt_tools.proposal(proposal_id))
    if settings().json or not (sys.stdin.isatty() and output.stdout().isatty()):
        shown = f"`demiurge tools review {view.id}` shows it"
        message = f"Say which revision you have read ({shown}): give its digest with --digest {view.digest}."
        raise OutcomeError("digest_missing", message, {"id": view.id, "digest": view.digest})
    diffs = _differences(opening, view)
    output.write(output.plain("\n".join(proposal_lines(view, diffs))))
    while True:
        answer = input(f"  {verb}: {view.kind} {view.tool} in the layer {view.target}? y or n: ").strip().lower()
        if answer in ("y", "yes"):
            return view.digest
        if answer in ("n", "no"):
            raise OutcomeError("stopped", "Nothing was decided.", {"id": view.id, "digest": view.digest})


def _differences(opening: Opened, view: ToolProposalView) -> list[FieldDiff]:
    """Returns what a proposal changes; nothing if its text was erased."""
    return opening.portal.run(opening.world.prompt_tools.proposal_diff(view.id)) if view.body is not None else []


def require_taken_over(view: ToolProposalView) -> None:
    """Raises OutcomeError if an approval did not make the tool live."""
    if view.state != "approved":
        message = view.outcome["message"] if view.outcome is not None else f"The proposal is {view.state}."
        code = view.outcome["code"] if view.outcome is not None else "wrong_state"
        raise OutcomeError(code, message, asdict(view))


def _spellings(data: bytes) -> Iterator[str]:
    """Returns the ids of tools that a document names, also one with other mistakes, such as a repeated field."""
    try:
        top = json.loads(data.decode("utf-8-sig", "replace"), object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return
    for entry in top if isinstance(top, list) else [top]:
        yield from _ids_in(entry)


def _ids_in(entry: Any) -> Iterator[str]:
    """Returns the ids in an object, given as a tuple of its fields."""
    for name, value in entry if isinstance(entry, tuple) else ():
        if name in _ID_FIELDS and isinstance(value, str):
            yield value
        elif name in _ID_FIELDS:
            for nested in value if isinstance(value, list) else [value]:
                yield from _ids_in(nested)


DECISIONS: Final = (
    approve,
    _decision(
        "needs-changes",
        "Return a proposal to its author, who may propose a revision. Takes the role user or chief.",
        "What has to change; the author is told.",
        PromptToolRegistry.needs_changes,
        lambda view: f"{view.id} is returned to its author.",
        takes_reason=True,
    ),
    _decision(
        "reject",
        "Reject a proposal for good. Takes the role user.",
        "Why; it is recorded.",
        PromptToolRegistry.reject,
        lambda view: f"{view.id} is rejected.",
        takes_reason=True,
    ),
    _decision(
        "withdraw",
        "Take a proposal back: its author or a user.",
        "Why; it is recorded.",
        PromptToolRegistry.withdraw,
        lambda view: f"{view.id} is withdrawn.",
        takes_reason=False,
    ),
)

PROPOSAL_COMMANDS: Final = (propose, copy, proposals, review, test, *DECISIONS)
