"""The section that adds the planning tools to a prompt, and the plan to its session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demiurge.prompts.markdown import MarkdownSection
from demiurge.prompts.planning.plan import fold_plans
from demiurge.prompts.planning.strategy import PlanningStrategy, instructions
from demiurge.prompts.planning.tools import planning_tools
from demiurge.sessions.session import Session

__all__ = ["PlanningConfig", "PlanningToolsSection"]


@dataclass(frozen=True, slots=True)
class PlanningConfig:
    """The options of a planning section. Raises ValueError for an unknown strategy."""

    strategy: PlanningStrategy = PlanningStrategy.REACT
    accepts_overrides: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", PlanningStrategy(self.strategy))


class PlanningToolsSection(MarkdownSection[None]):
    """Instructions and four tools; `session[Plan].latest()` is the plan. `config` replaces the other two options if
    it is passed. `accepts_overrides` applies to the text and to the tools.

    The tools work in the session of their call, which may be another one. Raises TypeError for an object that is not
    a Session."""

    def __init__(
        self,
        *,
        session: Session,
        config: PlanningConfig | None = None,
        strategy: PlanningStrategy = PlanningStrategy.REACT,
        accepts_overrides: bool = False,
    ) -> None:
        if not isinstance(session, Session):
            raise TypeError(f"a planning section keeps its plan in a Session, not in {type(session).__name__}")
        self.config = PlanningConfig(strategy, accepts_overrides) if config is None else config
        self.session = session
        super().__init__(
            title="Planning Tools",
            key="planning.tools",
            template=instructions(self.config.strategy),
            tools=planning_tools(accepts_overrides=self.config.accepts_overrides),
            accepts_overrides=self.config.accepts_overrides,
        )
        fold_plans(session)

    def clone(self, *, session: Session | None = None, **context: Any) -> PlanningToolsSection:
        """Returns the same section for another session. Raises TypeError without a session."""
        if session is None:
            raise TypeError("a planning section is cloned into a session: clone(session=...)")
        return PlanningToolsSection(session=session, config=self.config)
