"""Whoever has the key of the controller writes who runs which worker."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from quiver.cluster.membership import records
from quiver.cluster.membership.decisions import Decisions
from quiver.cluster.membership.session import Session
from quiver.cluster.membership.state import ClusterState
from quiver.coordination.port import OPERATIONS, Expected, Put
from quiver.model.errors import QuiverError
from quiver.telemetry.supervised_task import SupervisedTask

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
RETURN_SECONDS = 1.0
"""How long nodes without a lease are waited for by one that has just got its own: an outage of the store ends all."""


_AT_ONCE = OPERATIONS - 1
"""Changes in one transaction, beside the key of the controller."""


async def _nothing() -> None:
    return


class _Change(NamedTuple):
    expected: Expected
    """What the decision was based on."""
    put: Put


class Controlling:
    """Every node tries to get the key; it goes with the lease of the node that has it."""

    def __init__(self, state: ClusterState, session: Session, decisions: Decisions) -> None:
        self._state, self._session, self._decisions = state, session, decisions
        self.also: Callable[[], Awaitable[None]] = _nothing
        """What the controller does after each look."""
        self.task = SupervisedTask("the controller of the cluster", self._run)

    @property
    def is_controller(self) -> bool:
        return self._state.controller == self._session.node

    async def decide(self) -> None:
        """One look. Safe at any time: each write names what it is based on."""
        state, session = self._state, self._session
        if not session.lasts:
            return
        key, view = records.CONTROLLER_KEY, state.view
        if state.controller is None:
            put = Put(key, session.node.encode(), session.lease_id)
            if not await view.commit([view.expected(key)], [put]):
                return
            logger.info("node %s decides who runs what", session.node)
        if not self.is_controller or self._waits_for_return():
            return
        changes = [
            _Change(view.expected(name), Put(name, value)) for name, value in self._decisions.changes().items()
        ]
        for first in range(0, len(changes), _AT_ONCE):
            await self._write(changes[first : first + _AT_ONCE])
        await self.also()

    async def _write(self, changes: Sequence[_Change]) -> None:
        """In one transaction; one by one when something has changed meanwhile, so that the rest is written."""
        controller, view = self._state.view.expected(records.CONTROLLER_KEY), self._state.view
        if not self.is_controller:
            return
        if await view.commit([controller, *(each.expected for each in changes)], [each.put for each in changes]):
            for _, put in changes:
                logger.info("%s: %s", put.key, put.value.decode())
        elif len(changes) > 1:
            for each in changes:
                await self._write([each])

    def _waits_for_return(self) -> bool:
        joined_at = self._session.joined_at
        return (
            bool(self._decisions.missing_nodes()) and asyncio.get_running_loop().time() < joined_at + RETURN_SECONDS
        )

    async def _run(self) -> None:
        while True:
            changed = self._state.changed
            try:
                await self.decide()
            except QuiverError as error:
                logger.info("the cluster is looked at again: %s", error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):  # `wait_for` loses a cancellation in this moment
                    await changed.wait()
