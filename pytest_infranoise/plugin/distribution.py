"""Hooks that exist only where xdist is installed."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_infranoise.plugin.roles import KeeperHooks

WORKER_INPUT = "infranoise"
"""Key of a worker's `config.workerinput`."""


class DistributionHooks:
    """The controller's side of xdist."""

    def __init__(self, hooks: "KeeperHooks") -> None:
        self._hooks = hooks
        self._handover = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand the run's identity to a worker (a replacement for a dead one gets the same)."""
        if not self._handover:
            self._handover = self._hooks.handover_text()
        node.workerinput[WORKER_INPUT] = self._handover

    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Learn how many trials were selected."""
        self._hooks.expect_ids(ids)

    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Remove what a dead worker left behind."""
        if error is not None and self._hooks.is_active:
            self._hooks.keeper.sweep_worker(str(node.gateway.id))
