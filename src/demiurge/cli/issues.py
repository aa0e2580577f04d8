"""`demiurge issues`: what waits for a person or an agent, among it the review and the decision of each proposal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click

from demiurge.bootstrap.backend.review_views import IssueView
from demiurge.cli import output
from demiurge.cli.argument import read_text, utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.proposal_lines import block, one_line, when
from demiurge.cli.proposals import APPROVE, READ, agreed_digest, require_taken_over
from demiurge.cli.world import opened
from demiurge.world.review.issue_unit import PRIORITIES, STATUSES

__all__ = ["command"]

_ACTIONS: Final = ("approve", "needs_changes", "reject")

_issue_id = click.argument("issue_id", metavar="ID", callback=utf8_text)
_assignee = click.option("--assignee", metavar="WHO", callback=utf8_text, help="Whose work it is.")

_reason = click.option("--reason", default="", metavar="T", callback=utf8_text, help="Why; it is recorded.")


@click.group(cls=Group, name="issues")
def command() -> None:
    pass


@command.command(name="ls", cls=Command)
@click.option("--status", type=click.Choice(STATUSES), help="Only issues with this status.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="Only issues with this priority.")
@click.option("--tag", metavar="TAG", callback=utf8_text, help="Only issues with this tag.")
@_assignee
def ls(status: str | None, priority: str | None, tag: str | None, assignee: str | None) -> None:
    """List the issues, newest first."""
    with opened() as (world, portal):
        found = portal.run(world.issues.list(status, assignee, tag, priority))
    rows = [
        (
            *(issue.id, issue.status, issue.priority, one_line(issue.assignee) or "-"),
            *(when(issue.updated_at_ms), str(issue.comment_count), one_line(issue.title)),
        )
        for issue in found
    ]
    header = ("ISSUE", "STATUS", "PRIORITY", "ASSIGNEE", "CHANGED", "COMMENTS", "TITLE")
    lines = output.table(rows, header) if rows else ["There is no such issue."]
    output.result({"issues": [asdict(issue) for issue in found]}, *lines)


@command.command(name="show", cls=Command)
@_issue_id
def show(issue_id: str) -> None:
    """Print an issue with its comments, and what a user may decide by it."""
    with opened() as (world, portal):
        issue = portal.run(world.issues.show(issue_id))
    output.result(asdict(issue), *_lines(issue))


@command.command(name="open", cls=Command)
@click.argument("title", metavar="TITLE", callback=utf8_text)
@click.argument("body", metavar="[BODY]", default="", callback=utf8_text)
@click.option("--priority", type=click.Choice(PRIORITIES), default="normal", show_default=True)
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; may be repeated.")
@_assignee
def open_(title: str, body: str, priority: str, tags: tuple[str, ...], assignee: str | None) -> None:
    """Open an issue. BODY is text, @file or @-. A world is made where there is none."""
    text = read_text(body)
    with opened(create=True) as (world, portal):
        made = portal.run(world.issues.open(title, text, assignee=assignee or "", tags=tags, priority=priority))
    output.result(asdict(made), made.id)


@command.command(name="comment", cls=Command)
@_issue_id
@click.argument("body", metavar="TEXT", callback=utf8_text)
def comment(issue_id: str, body: str) -> None:
    """Add a comment to an issue. TEXT is text, @file or @-."""
    text = read_text(body)
    with opened() as (world, portal):
        issue = portal.run(world.issues.comment(issue_id, text))
    output.result(asdict(issue), f"Your comment is in {issue.id}.")


@command.command(name="act", cls=Command)
@_issue_id
@click.argument("action", type=click.Choice((*_ACTIONS, "needs-changes")), metavar="ACTION")
@_reason
@click.option("--digest", metavar="D", callback=utf8_text, help="The digest of the proposal that you read.")
@READ
def act(issue_id: str, action: str, reason: str, digest: str | None, read: bool) -> None:
    """Decide by an issue on its proposal: ACTION is approve, needs-changes or reject.

    To approve takes --digest and --read. Without --digest the proposal is shown and you are asked, which takes a
    terminal.
    """
    action = action.replace("-", "_")
    with opened() as opening:
        world, portal = opening
        proposal = portal.run(world.issues.show(issue_id)).proposal
        if action == "approve" and digest is None and proposal is not None:
            digest, read = agreed_digest(opening, proposal, APPROVE), True
        issue = portal.run(world.issues.act(issue_id, action, reason, digest, read=read))
        if action == "approve" and proposal is not None:
            require_taken_over(portal.run(world.prompt_tools.proposal(proposal)))
    output.result(asdict(issue), f"{proposal}: {action} is recorded, and {issue.id} is {issue.status}.")


@command.command(name="close", cls=Command)
@_issue_id
@_reason
def close(issue_id: str, reason: str) -> None:
    """Close an issue that belongs to no proposal."""
    with opened() as (world, portal):
        issue = portal.run(world.issues.close(issue_id, reason))
    output.result(asdict(issue), f"{issue.id} is closed.")


@command.command(name="reopen", cls=Command)
@_issue_id
@_reason
def reopen(issue_id: str, reason: str) -> None:
    """Open a closed issue again that belongs to no proposal."""
    with opened() as (world, portal):
        issue = portal.run(world.issues.reopen(issue_id, reason))
    output.result(asdict(issue), f"{issue.id} is open.")


def _lines(issue: IssueView) -> list[str]:
    who = f"opened by {one_line(issue.opened_by)}, {when(issue.created_at_ms)}"
    lines = [
        f"{issue.id}: {one_line(issue.title)}",
        f"{issue.status}, priority {issue.priority}, for {one_line(issue.assignee) or 'nobody'}, {who}",
        *([f"tags: {one_line(', '.join(issue.tags))}"] if issue.tags else []),
        *([f"proposal {issue.proposal}, digest {issue.digest}"] if issue.proposal is not None else []),
        *(block(issue.body) if issue.body is not None else ["Its text was erased."]),
    ]
    for each in issue.comments:
        action = f" ({one_line(each['action'])})" if each["action"] is not None else ""
        lines += ["", f"{one_line(each['by'])}, {when(each['at_ms'])}{action}:", *block(each["body"])]
    return [*lines, *([f"Actions: {', '.join(issue.actions)}"] if issue.actions else [])]
