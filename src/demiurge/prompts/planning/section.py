"""The section that gives a prompt the planning tools, and its session the plan."""

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
    """What a planning section is like, wherever it is put. Raises ValueError for a strategy that there is not."""

    strategy: PlanningStrategy = PlanningStrategy.REACT
    accepts_overrides: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", PlanningStrategy(self.strategy))


class PlanningToolsSection(MarkdownSection[None]):
    """Instructions and four tools; `session[Plan].latest()` is the plan. `config`, when given, stands for the other
    two. `accepts_overrides` holds for the text and for the tools.

    The tools work in the session of their call, whichever that is. Raises TypeError for what is no session."""

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
        """The same for another session. Raises TypeError without one."""
        if session is None:
            raise TypeError("a planning section is cloned into a session: clone(session=...)")
        return PlanningToolsSection(session=session, config=self.config)
