"""The engine `local`: keys in a journal of this process. Others reach it over a link.

A transaction is written with its comparisons and decided when it is applied, so transactions that come together
share a sync, and no lock is held meanwhile.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence

from quiver.coordination.events import CODEC, Event, LeaseEnded, LeaseGranted, Proposed
from quiver.coordination.lease_timers import LeaseTimers
from quiver.coordination.port import (
    ChangeBatch,
    Expected,
    KeyRange,
    KeyValue,
    Operation,
    Outcome,
    check_transaction,
)
from quiver.coordination.state import CoordinationState
from quiver.coordination.watching import Watches
from quiver.storage.journaled_state import JournaledState
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask

LOG_ID = "internal/coordination"
_SNAPSHOT_AFTER_SECONDS = 5.0
_SNAPSHOT_CHECK_SECONDS = 1.0


class LocalCoordination:
    """`open` comes first, and raises CorruptData if the journal is damaged."""

    def __init__(self, *, clock: Clock) -> None:
        self._state = CoordinationState()
        self._watches = Watches(self._state)
        self.opened = asyncio.Event()
        """Until it is set, nobody may call it."""
        self._journaled = JournaledState(
            LOG_ID, self, CODEC, clock=clock, snapshot_after_seconds=_SNAPSHOT_AFTER_SECONDS
        )
        self._last_number = 0
        self._outcomes: dict[int, Outcome | None] = {}
        """Of the records whose writers wait, by number; None while a record is not applied."""
        self._timers = LeaseTimers(self.revoke)
        self.task = PeriodicTask("coordination", self._keep_up, every_seconds=_SNAPSHOT_CHECK_SECONDS)

    async def open(self, storage: Storage, epoch: int) -> None:
        """Leases last their whole time again: nobody could keep them alive while this process was down."""
        await self._journaled.open(storage, epoch)
        for lease_id, lease in self._state.leases.items():
            self._timers.start(lease_id, lease.ttl_ms)
        self.task.start()
        self.opened.set()

    async def close(self) -> None:
        await self.task.stop()
        await self._timers.close()
        await self._journaled.close()

    async def get(self, key: str) -> KeyValue | None:
        return self._state.get(key)

    async def range(self, prefix: str) -> KeyRange:
        return self._state.range(prefix)

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        check_transaction(expected, operations)
        refused = self._state.refusal(expected, operations)
        if refused is not None:  # as it is on disk now: nothing has to be written to know it
            return refused
        return await self._write(Proposed(self._next_number(), list(expected), list(operations)))

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        return self._watches.watch(prefix, after_revision)

    async def next_batch(self, prefix: str, after_revision: int, *, is_first: bool) -> ChangeBatch:
        """One step of a watch, for a watcher in another process."""
        return await self._watches.next_batch(prefix, after_revision, is_first=is_first)

    async def grant_lease(self, ttl_ms: int) -> int:
        return (await self._write(LeaseGranted(self._next_number(), ttl_ms))).revision

    async def keep_alive(self, lease_id: int) -> bool:
        if not self._timers.is_running(lease_id):
            return False
        self._timers.start(lease_id, self._state.leases[lease_id].ttl_ms)
        return True

    async def revoke(self, lease_id: int) -> None:
        self._timers.stop(lease_id)
        if lease_id in self._state.leases:
            await self._write(LeaseEnded(self._next_number(), lease_id))

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    async def _write(self, event: Event) -> Outcome:
        self._outcomes[event.number] = None
        try:
            await self._journaled.append(event)
        finally:
            outcome = self._outcomes.pop(event.number)
        assert outcome is not None, "a record that is on disk was applied"
        return outcome

    async def _keep_up(self, failures: Failures) -> None:
        with failures.of("a snapshot of coordination"):
            await self._journaled.snapshot_if_due()

    # what JournaledState needs of a state machine

    def apply(self, event: Event) -> None:
        outcome = self._state.apply(event)
        if event.number in self._outcomes:
            self._outcomes[event.number] = outcome
        if isinstance(event, LeaseGranted) and self._journaled.is_open:  # also if nobody waits for it any more
            self._timers.start(outcome.revision, event.ttl_ms)
        self._watches.wake()

    def snapshot(self) -> Iterator[bytes]:
        return self._state.snapshot()

    def restore(self, data: bytes) -> None:
        self._state.restore(data)
