"""A node whose disk has failed leads nothing: others take over what it led, until it is started again."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from quiver.cluster.membership import records
from quiver.cluster.membership.session import Session
from quiver.cluster.membership.state import ClusterState
from quiver.coordination.port import Put
from quiver.model.errors import QuiverError
from quiver.telemetry.supervised_task import SupervisedTask

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


class DiskWatch:
    """`failure`: why the storage takes no writes, which does not change before the next start."""

    def __init__(self, failure: Callable[[], str | None], session: Session, state: ClusterState) -> None:
        self._failure, self._session, self._state = failure, session, state
        self._has_failed = False
        self.task = SupervisedTask("the disk of this node", self._run)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            failure = self._failure()
            if failure is None:
                continue
            if not self._has_failed:
                _log.error("this node leads nothing any more, until it is started again: %s", failure)
                self._has_failed = True
            await self._step_down()

    async def _step_down(self) -> None:
        """As draining, under the lease of this process: another start of the node is a new one."""
        node, lease_id = self._session.node, self._session.lease_id
        if lease_id and node not in self._state.draining:
            with contextlib.suppress(QuiverError):  # while coordination is away it is tried again
                await self._state.view.commit([], [Put(records.draining_key(node), b"", lease_id)])
