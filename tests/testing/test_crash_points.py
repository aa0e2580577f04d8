"""The crash kit: real processes, killed at the points of a call, and what is reported of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.testing import mail_tools
from tests.testing.mail_tools import CALL

from demiurge.errors import InvalidValue, UsageError
from demiurge.testing import CrashReport, Kill, Outside, crash_points, fault_point

AROUND = ("attempts.*", "effect.*", "mark.*")
"""The points around the effect of a call."""


def test_a_tool_that_promises_nothing_is_in_doubt_and_never_doubled() -> None:
    told: list[tuple[int, int]] = []
    report = crash_points(mail_tools.plain, call=CALL, points=AROUND, progress=lambda *at: told.append(at))
    assert report.expected == {"mail to ann@example.com": 1}
    assert {kill.point: (kill.verdict, sum(kill.effects.values())) for kill in report.kills} == {
        "effect.before_attempt": ("once", 1),
        "attempts.before_commit": ("once", 1),
        "attempts.after_commit": ("in doubt", 0),
        "effect.attempted": ("in doubt", 0),
        "mark.before_send": ("in doubt", 0),
        "mark.outside_effect": ("in doubt", 1),
        "mark.after_send": ("in doubt", 1),
        "effect.performed": ("in doubt", 1),
        "effect.received": ("once", 1),
    }
    assert all(kill.killed for kill in report.kills)
    assert told[0] == (0, 9)
    assert told[-1] == (9, 9)
    report.assert_never_doubled()
    report.assert_never_lost()
    with pytest.raises(AssertionError, match="6 of 9 kills went wrong"):
        report.assert_never_in_doubt()


def test_a_tool_with_reconcile_always_knows_the_outcome() -> None:
    report = crash_points(mail_tools.reconciled, call=CALL, points=AROUND)
    found = {kill.point: kill.verdict for kill in report.kills}
    assert found["mark.outside_effect"] == found["effect.performed"] == "once"
    assert found["effect.attempted"] == "not done"
    for check in (report.assert_never_doubled, report.assert_never_lost, report.assert_never_in_doubt):
        check()


def test_a_key_lets_the_ledger_remember_what_was_done() -> None:
    report = crash_points(mail_tools.keyed, call=CALL, points=("ledger.settle.*", "tool.ran", "mark.*"))
    assert {kill.point: kill.verdict for kill in report.kills} == {
        "mark.outside_effect": "in doubt",
        "ledger.settle.before_commit": "in doubt",
        "ledger.settle.after_commit": "once",
        "tool.ran": "once",
    }


def test_a_tool_that_only_reads_is_repeated_without_harm() -> None:
    report = crash_points(mail_tools.reading, call=CALL, points=("mark.*", "effect.attempted"))
    assert report.counts == {"once": 1, "repeated": 1}
    report.assert_never_doubled()
    report.assert_never_in_doubt()


def test_a_turn_of_a_chat_is_killed_and_goes_on() -> None:
    points = ("mark.*", "effect.attempted", "unit.committed")
    report = crash_points(mail_tools.in_chat, message="Write to Ann.", points=points, hits=2)
    assert len(report.kills) == 7
    report.assert_never_doubled()
    report.assert_never_lost()
    assert {kill.point for kill in report.of("in doubt")} >= {"mark.before_send", "mark.outside_effect"}


def test_a_runner_without_a_world_repeats_what_has_no_key() -> None:
    plain = crash_points(mail_tools.plain, call=CALL, in_runner=True)
    assert {kill.point: kill.verdict for kill in plain.kills} == {
        "mark.before_send": "once",
        "mark.outside_effect": "doubled",
        "mark.after_send": "doubled",
    }
    with pytest.raises(
        AssertionError, match=r"just after an effect outside, hit 1: doubled: mail to ann@example\.com \(2\)"
    ):
        plain.assert_never_doubled()
    keyed = crash_points(mail_tools.keyed, call=CALL, in_runner=True)
    keyed.assert_never_doubled()
    assert keyed.counts == {"once": 2, "in doubt": 3}


def test_effects_are_counted_as_the_caller_says() -> None:
    report = crash_points(
        mail_tools.plain, call=CALL, points=("mark.after_send",), effects=lambda outside: ["x"] * len(outside.done())
    )
    assert report.expected == {"x": 1}


def test_a_call_that_can_not_be_killed_is_refused() -> None:
    def inside(outside: Outside) -> list[object]:
        return []

    builds: list[Any] = [inside, lambda outside: []]
    for build in builds:
        with pytest.raises(UsageError, match="top level of a module"):
            crash_points(build, call=CALL)
    with pytest.raises(UsageError, match=r"ended with policy_denied: There is no tool other_tool"):
        crash_points(mail_tools.plain, call=("other_tool", {}))
    with pytest.raises(UsageError, match="RuntimeError: no mail server"):
        crash_points(mail_tools.breaks, call=CALL)
    wrongs: list[dict[str, Any]] = [{}, {"call": CALL, "message": "hi"}, {"message": "hi", "in_runner": True}]
    for wrong in wrongs:
        with pytest.raises(InvalidValue):
            crash_points(mail_tools.plain, **wrong)
    with pytest.raises(InvalidValue):
        crash_points(mail_tools.plain, call=CALL, hits=0)


def test_a_process_that_fails_after_the_kill_is_reported() -> None:
    report = crash_points(mail_tools.breaks_after_a_kill, call=CALL, points=("mark.outside_effect",))
    [kill] = report.kills
    assert (kill.verdict, kill.effects) == ("broken", {"mail to ann@example.com": 1})
    assert "RuntimeError: the mail server is gone" in kill.detail
    with pytest.raises(AssertionError, match="1 of 1 kills went wrong"):
        report.assert_never_doubled()


def test_the_report_is_a_table_and_json() -> None:
    kills = (
        Kill("effect.attempted", 1, "in doubt", {}, "unknown_outcome"),
        Kill("unit.committed", 1, "once", {"mail": 1}),
        Kill("unit.committed", 2, "in doubt", {"mail": 1}, "unknown_outcome"),
        Kill("mark.outside_effect", 1, "doubled", {"mail": 2}),
    )
    report = CrashReport({"mail": 1}, kills)
    assert str(report).splitlines()[:9] == [
        "Without a kill: mail (1).",
        "",
        "kill -9 at                    kills  what became of the effect",
        "effect.attempted                  1  in doubt",
        "unit.committed                    2  once 1, in doubt 1",
        "just after an effect outside      1  doubled",
        "",
        "4 kills: once 1, in doubt 2, doubled 1 (of those in doubt, 1 took place)",
        "once: the effect took place as often as without a kill, and the caller was told so",
    ]
    node = json.loads(json.dumps(report.to_json()))
    assert node["counts"] == {"once": 1, "in doubt": 2, "doubled": 1}
    assert node["kills"][3]["effects"] == {"mail": 2}
    assert report.of("doubled") == (kills[3],)


def test_a_mark_does_nothing_outside_the_kit(tmp_path: Path) -> None:
    fault_point("Any name at all")
    outside = Outside(tmp_path)
    assert outside.done() == []
    outside.did("a mail\nof two lines")
    assert outside.done() == ["a mail of two lines"]
