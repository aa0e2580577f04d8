"""A secret value goes in at one place, and comes out at none: the table of all journeys on which one is sent.

A row says where values enter, on what journey, and which surfaces are searched for them, in every spelling. The journey
checks that it ends as it should; `search.py` searches. There are two tables: tool calls in this process, and worlds in
processes of their own that are killed on the way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.canaries import (
    call_result,
    connection_token,
    decided_arguments,
    http_secret,
    model_key,
    oauth_login,
    tool_values,
    vault_value,
    world_connection,
)
from tests.canaries.search import Traces, find_values, spellings_of

from demiurge.tools import Redaction
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.ledger.idempotency import IdempotencyConfig, IdempotencyStrategy

CALL_SURFACES = frozenset({"events", "spans", "summary", "logs and terminal"})
RESULT_SURFACES = frozenset({"record", "value", "safe message", "printed", "summed up"})
TOKEN_SURFACES = frozenset(
    {"result", "content", "record", "events", "pickles", "files", "objects", "logs", "stdout and stderr"}
)
WORLD_SURFACES = frozenset({"stdout and stderr", "socket", "prompts", "export", "world and home folder"})
VIEWER_SURFACES = frozenset(
    {"answers to a viewer", "blobs of a viewer", "command line of a viewer", "stdout and stderr"}
)
KILLED_SURFACES = frozenset({"stdout and stderr", "world folder", "home folder", "journal", "blobs"})


@dataclass(frozen=True)
class Row:
    """`enters`: where values go in, at least; `surfaces`: where they must not come out. `needs`: the fixtures that the
    journey takes, `given`: its other arguments."""

    name: str
    enters: frozenset[str]
    surfaces: frozenset[str]
    journey: Callable[..., Traces | Awaitable[Traces]]
    needs: tuple[str, ...]
    given: Mapping[str, Any] = field(default_factory=dict)


async def run_row(row: Row, request: pytest.FixtureRequest) -> Traces:
    fixtures = {name: request.getfixturevalue(name) for name in row.needs}
    traces = row.journey(**row.given, **fixtures)
    return traces if isinstance(traces, Traces) else await traces


CALLS = [
    *(
        Row(
            f"{number}-{scene.code or 'ok'}-{mode}",
            frozenset(tool_values.PLACES.split()),
            CALL_SURFACES | (RESULT_SURFACES if scene.code != "cancelled" else set()),
            tool_values.run_journey,
            ("caplog", "capfd"),
            {"scene": scene, "mode": mode},
        )
        for number, scene in enumerate(tool_values.SCENES)
        for mode in tool_values.MODES
    ),
    *(
        Row(
            f"token-{act.__name__}-{name}",
            frozenset({"access token", "refresh token"}),
            TOKEN_SURFACES,
            connection_token.run_journey,
            ("tmp_path", "caplog", "capfd"),
            {"act": act, "options": options},
        )
        for act in connection_token.HANDLERS
        for name, options in {
            "message": {"redaction": Redaction.message_only()},
            "all": {"redaction": Redaction.paths("*")},
            "remembered": {"idempotency": IdempotencyConfig(strategy=IdempotencyStrategy.AUTO)},
        }.items()
    ),
]

WORLDS = [
    *(
        Row(
            f"http-secret-{point}",
            frozenset({"env", "file", "vault"}),
            KILLED_SURFACES,
            http_secret.run_journey,
            ("tmp_path",),
            {"point": point},
        )
        for point in ("effect.attempted", "effect.performed", "effect.received")
    ),
    Row(
        "model-key",
        frozenset({"key in the environment", "key in the vault", "key of the vault"}),
        WORLD_SURFACES,
        model_key.run_journey,
        ("process", "provider", "world", "tmp_path"),
    ),
    Row(
        "vault-value",
        frozenset({"web/robot version 1", "web/tool version 1", "web/tool version 2", "key of the vault"}),
        WORLD_SURFACES,
        vault_value.run_journey,
        ("process", "provider", "world", "tmp_path"),
    ),
    Row(
        "connection-of-a-world",
        frozenset({"token", "key of the vault"}),
        WORLD_SURFACES,
        world_connection.run_journey,
        ("process", "provider", "world", "tmp_path"),
    ),
    Row(
        "oauth-login",
        frozenset({"key of the vault", *(f"secret {number}" for number in range(10)), "verifier 2"}),
        WORLD_SURFACES | {"answers of the API", "browser"},
        oauth_login.run_journey,
        ("process", "provider", "world", "tmp_path"),
    ),
    Row(
        "call-result",
        frozenset(call_result.VALUES),
        frozenset(call_result.SURFACES),
        call_result.run_journey,
        ("tmp_path",),
    ),
    Row(
        "decided-arguments",
        frozenset(decided_arguments.VALUES),
        VIEWER_SURFACES,
        decided_arguments.run_journey,
        ("process", "provider", "world", "tmp_path"),
    ),
]


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.name)
async def test_no_value_of_a_call_comes_out(row: Row, request: pytest.FixtureRequest) -> None:
    traces = await run_row(row, request)
    assert row.enters <= set(traces.planted)
    assert row.surfaces == set(traces.surfaces)
    assert traces.leaks() == []


@pytest.mark.parametrize("row", WORLDS, ids=lambda row: row.name)
async def test_no_value_of_a_world_comes_out(row: Row, request: pytest.FixtureRequest) -> None:
    traces = await run_row(row, request)
    assert row.enters <= set(traces.planted)
    assert row.surfaces == set(traces.surfaces)
    assert all(traces.surfaces.values()), "each surface was looked at"
    assert traces.leaks() == []


# -- that the search would find them, and that what should come out does


@pytest.mark.parametrize("value", http_secret.VALUES.values(), ids=http_secret.VALUES)
def test_a_value_is_found_in_every_spelling(value: str) -> None:
    for spelling, text in spellings_of(value).items():
        assert find_values([value], f"before {text} after"), spelling
        assert Traces({"here": value}, {"log": [f"before {text} after"]}).leaks()
    assert find_values([value], b"nothing") == []


@pytest.mark.parametrize("mode", tool_values.MODES)
async def test_allowlisted_values_are_on_the_surfaces_of_their_redaction_mode(mode: str) -> None:
    redaction, allowlisted = tool_values.MODES[mode]
    observed = tool_values.Observed(tool_values.Scene(None), redaction)
    result = await observed.run()
    assert result is not None
    shown = observed.surfaces(result)
    for surface in ("events", "value", "record"):
        assert tool_values.places_shown_in(shown[surface]) == allowlisted, surface
    assert tool_values.places_shown_in(result.content) == {"message", "rendering", "value.shut"}


async def test_an_exception_of_a_handler_is_explained_to_the_author_only() -> None:
    scene = tool_values.Scene("execution", tool_values.handler_that_raises(tool_values.chained_error))
    observed = tool_values.Observed(scene, Redaction.message_only())
    result = await observed.run()
    assert result is not None
    [explained] = observed.explained
    assert tool_values.places_shown_in(explained) >= {"error", "note", "cause"}
    assert "Traceback (most recent call last)" in explained
    assert "handler of look (call c) raised ValueError" in explained
    assert not tool_values.places_shown_in(result.content)


def test_every_way_in_which_a_call_can_end_is_a_row() -> None:
    assert {scene.code for scene in tool_values.SCENES} == {None, *(code.value for code in ToolErrorCode)}
