"""The graph that a run belongs to. A run's id is useless without the graph's name and version.

All three are required, so every recorded run can be traced to its graph.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from demiurge.errors import InvalidValue

__all__ = ["GraphRun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRun:
    """The id of a run, and the name and version of its graph: texts that are not empty. Raises InvalidValue."""

    graph_run_id: str
    graph_name: str
    graph_version: str

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not isinstance(value, str) or not value.strip():
                raise InvalidValue("a graph run needs its id, the graph's name and its version", path=entry.name)

    def to_json(self) -> dict[str, str]:
        return asdict(self)
