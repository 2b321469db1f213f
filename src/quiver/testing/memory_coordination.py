"""The engine `memory`: for tests and the simulator. It forgets everything with the process."""

from collections.abc import AsyncGenerator, Sequence

from quiver.coordination.events import LeaseEnded, LeaseGranted, Proposed
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


class MemoryCoordination:
    def __init__(self) -> None:
        self._state = CoordinationState()
        self._watches = Watches(self._state)
        self._timers = LeaseTimers(self.revoke)

    async def close(self) -> None:
        await self._timers.close()

    async def get(self, key: str) -> KeyValue | None:
        return self._state.get(key)

    async def range(self, prefix: str) -> KeyRange:
        return self._state.range(prefix)

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        check_transaction(expected, operations)
        outcome = self._state.apply(Proposed(0, list(expected), list(operations)))
        self._watches.wake()
        return outcome

    def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        return self._watches.watch(prefix, after_revision)

    async def grant_lease(self, ttl_ms: int) -> int:
        lease_id = self._state.apply(LeaseGranted(0, ttl_ms)).revision
        self._timers.start(lease_id, ttl_ms)
        return lease_id

    async def keep_alive(self, lease_id: int) -> bool:
        if not self._timers.is_running(lease_id):
            return False
        self._timers.start(lease_id, self._state.leases[lease_id].ttl_ms)
        return True

    async def revoke(self, lease_id: int) -> None:
        self._timers.stop(lease_id)
        self._state.apply(LeaseEnded(0, lease_id))
        self._watches.wake()
