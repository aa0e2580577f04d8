"""A graph run is all of its three names or nothing."""

from __future__ import annotations

import pytest

from demiurge import InvalidValue
from demiurge.tools import GraphRun

WHOLE = {"graph_run_id": "r1", "graph_name": "poet", "graph_version": "3"}


def test_a_graph_run_is_written_with_its_three_fields() -> None:
    assert GraphRun(**WHOLE).to_json() == WHOLE


@pytest.mark.parametrize("name", WHOLE)
def test_a_graph_run_without_one_of_its_fields_is_refused(name: str) -> None:
    with pytest.raises(TypeError):
        GraphRun(**{key: value for key, value in WHOLE.items() if key != name})
    for odd in ("", " ", None, 3):
        with pytest.raises(InvalidValue, match=name):
            GraphRun(**{**WHOLE, name: odd})  # type: ignore[arg-type]
