"""The trials of each contestant: its process is killed, its stored call is changed, its log is changed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.compare.contest import CONTESTANTS, Contestant, Failed, Outside, outside, run
from bench.compare.contestant import ADA
from bench.compare.damage import change, drop_last, places
from bench.tool_call.environment import Missing

__all__ = ["approval", "audit", "crash"]

EVE = "eve@example.com"
"""Another address, as long as Ada's."""

Rows = Iterator[tuple[str, ...]]
Trial = Callable[[Contestant, Path, Outside], tuple[str, ...]]


def _try_all(trial: Trial) -> Rows:
    for contestant in CONTESTANTS:
        with tempfile.TemporaryDirectory() as folder, outside() as world:
            try:
                yield contestant.title, *trial(contestant, Path(folder), world)
            except Missing as reason:
                yield contestant.title, f"not tried: {reason}"


def _said(contestant: Contestant, command: str, folder: Path, world: Outside) -> str:
    """Returns the text that a command of a contestant prints, or the error with which the command ends."""
    try:
        return str(run(contestant, command, folder, world.url).get("said", "it was killed"))[:240]
    except Failed as error:
        return f"error: {error}"[:240]


# -- killed after the e-mail was sent, before the call had returned ----------------------------------------------------


def crash() -> tuple[tuple[str, ...], Rows]:
    return ("", "e-mails sent", "what it said after the restart"), _try_all(_crash)


def _crash(contestant: Contestant, folder: Path, world: Outside) -> tuple[str, ...]:
    assert run(contestant, "crash", folder, world.url) == {}
    assert world.sent() == [ADA]
    said = _said(contestant, "recover", folder, world)
    return str(len(world.sent())), said


# -- an approval -------------------------------------------------------------------------------------------------------


def approval() -> tuple[tuple[str, ...], Rows]:
    head = ("", "the approver sees the address", "a yes after a restart", "a yes after the stored address was changed")
    return head, _try_all(_approval)


def _approval(contestant: Contestant, folder: Path, world: Outside) -> tuple[str, ...]:
    shown = _ask(contestant, folder / "first", world)
    if world.sent():  # the approver is a function that answers at once
        return shown, "no: it waits in memory", "nothing is stored"
    said = _said(contestant, "approve", folder / "first", world)
    survives = "e-mail sent" if world.sent() == [ADA] else f"no e-mail: {said}"
    return shown, survives, _bound(contestant, folder, world)


def _ask(contestant: Contestant, folder: Path, world: Outside) -> str:
    """Has the call wait for an approval. Returns whether the approver sees the address."""
    folder.mkdir()
    return "yes" if ADA in str(run(contestant, "ask", folder, world.url)["shown"]) else "no"


def _bound(contestant: Contestant, folder: Path, world: Outside) -> str:
    """Changes the stored address in one place after the other, then in all of them, each time in a new folder."""
    outcomes: list[str] = []
    _ask(contestant, folder / "places", world)
    for number in range(len(places(folder / "places", ADA)) + 1):
        where = folder / f"changed{number}"
        _ask(contestant, where, world)
        found = places(where, ADA)
        chosen = found[number : number + 1] or found
        for place in chosen:
            change(where, place, ADA, EVE)
        said = _said(contestant, "approve", where, world)
        if EVE in world.sent():
            return f"**e-mail to {EVE}**: changed in {', '.join(map(str, chosen))}"
        outcomes.append(said)
    return f"no e-mail to {EVE}, in {len(outcomes)} tries; {outcomes[-1]}"


# -- the log -----------------------------------------------------------------------------------------------------------


def audit() -> tuple[tuple[str, ...], Rows]:
    head = ("", "one byte changed", "last entry dropped", "what it said of the byte", "what it said of the entry")
    return head, _try_all(_audit)


def _audit(contestant: Contestant, folder: Path, world: Outside) -> tuple[str, ...]:
    file, table = contestant.log
    damages: tuple[Callable[[Path], object], ...] = (
        lambda where: _change_byte(where, *contestant.recorded),
        lambda where: drop_last(where / file, table),
    )
    found: list[str] = []
    said: list[str] = []
    for damage in damages:
        where = folder / str(len(found))
        where.mkdir()
        run(contestant, "turn", where, world.url)
        sound = run(contestant, "check", where, world.url)
        assert not sound["found"], sound
        damage(where)
        try:
            answer = run(contestant, "check", where, world.url)
        except Failed as error:
            answer = {"found": True, "said": f"error: {error}"}
        found.append("found" if answer["found"] else "not found")
        said.append(str(answer["said"])[:200])
    return *found, *said


def _change_byte(folder: Path, old: str, new: str) -> None:
    """Changes one byte, wherever the log has it."""
    found = places(folder, old)
    assert found, f"{old} is nowhere in {folder}"
    for place in found:
        change(folder, place, old, new)
