"""Settings of visibility in a session."""

from typing import Any

import pytest

from demiurge.prompts import (
    ClearVisibilityOverride,
    SectionVisibility,
    SetVisibilityOverride,
    VisibilityOverrides,
    fold_visibility,
    set_visibility,
)
from demiurge.sessions import Session, SessionSnapshot

FULL, SUMMARY = SectionVisibility.FULL, SectionVisibility.SUMMARY
A, B = ("a",), ("b", "c")


def stored_visibility(session: Session) -> dict[tuple[str, ...], SectionVisibility]:
    latest = session[VisibilityOverrides].latest()
    return dict(latest.by_path()) if latest is not None else {}


def test_events_set_and_clear() -> None:
    session = Session()
    fold_visibility(session)
    assert stored_visibility(session) == {}
    for event in (SetVisibilityOverride(A, FULL), SetVisibilityOverride(B, SUMMARY), SetVisibilityOverride(A, SUMMARY)):
        session.broadcast(event)
    assert stored_visibility(session) == {A: SUMMARY, B: SUMMARY}
    session.broadcast(ClearVisibilityOverride(A))
    session.broadcast(ClearVisibilityOverride(A))
    assert stored_visibility(session) == {B: SUMMARY}


def test_setting_needs_no_preparation_and_may_be_repeated() -> None:
    session = Session()
    set_visibility(session, {A: FULL, B: SUMMARY})
    set_visibility(session, {A: SUMMARY})
    assert stored_visibility(session) == {A: SUMMARY, B: SUMMARY}


def test_a_path_is_not_a_text() -> None:
    path: Any = "a"
    with pytest.raises(TypeError, match="tuple of keys"):
        set_visibility(Session(), {path: FULL})


def test_there_is_one_value_whatever_happened() -> None:
    session = Session()
    for _ in range(3):
        set_visibility(session, {A: FULL})
    assert session[VisibilityOverrides].all() == (VisibilityOverrides((SetVisibilityOverride(A, FULL),)),)


def test_a_snapshot_takes_the_settings_along() -> None:
    session = Session()
    set_visibility(session, {A: FULL})
    snapshot = session.snapshot()
    set_visibility(session, {A: SUMMARY})
    session.restore(SessionSnapshot.from_json(snapshot.to_json(), [VisibilityOverrides]))
    assert stored_visibility(session) == {A: FULL}
