"""The code of the `sys/*` modules, which every world has."""

from __future__ import annotations

from demiurge.world.connections import connection_reducers
from demiurge.world.mcp_servers import MCP_SERVER, mcp_server_reducer
from demiurge.world.reducer import Reducer
from demiurge.world.review.issue_unit import ISSUE, issue_reducer
from demiurge.world.review.model_run_unit import MODEL_RUN, model_run_reducer
from demiurge.world.review.proposal_unit import PROPOSAL, proposal_reducer
from demiurge.world.review.registry_unit import REGISTRY, registry_reducer
from demiurge.world.webhooks import WEBHOOK, webhook_reducer
from demiurge.world.workspace import WORKSPACE, workspace_reducer

__all__ = ["system_reducers"]


def system_reducers() -> dict[str, Reducer]:
    """Returns the reducers of the built-in modules, by module name."""
    reviewed = {PROPOSAL: proposal_reducer(), REGISTRY: registry_reducer(), ISSUE: issue_reducer()}
    reviewed |= {MODEL_RUN: model_run_reducer()}
    reviewed |= {MCP_SERVER: mcp_server_reducer()}
    return {WORKSPACE: workspace_reducer(), **connection_reducers(), WEBHOOK: webhook_reducer(), **reviewed}
