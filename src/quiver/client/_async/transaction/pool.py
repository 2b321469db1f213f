"""The producers of transactions that a client keeps, so that only the first transaction of each has to initialise."""

import threading

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection
from quiver.client._async.transaction.transactional import AsyncTransactional
from quiver.client.produce.options import ProducerConfig


class AsyncTransactionPool:
    """One per transactional id; those without an id are used again by later transactions."""

    def __init__(self, broker: AsyncReconnectingConnection) -> None:
        self._broker = broker
        self._mutex = threading.Lock()
        self._named: dict[str, AsyncTransactional] = {}
        self._unnamed: list[AsyncTransactional] = []
        self._handed_out: list[AsyncTransactional] = []
        """Without an id, and used only by the caller; its producers send until it is closed."""

    def get(
        self, transactional_id: str | None, timeout_ms: int, sending: ProducerConfig | None = None
    ) -> AsyncTransactional:
        """The open one of an id; without an id, a new one."""
        self._broker.check_fork()
        with self._mutex:
            if transactional_id is None:
                own = AsyncTransactional(self._broker, None, timeout_ms, sending)
                self._handed_out = [each for each in self._handed_out if not each.is_closed] + [own]
                return own
            self._named = {name: each for name, each in self._named.items() if not each.is_closed}
            found = self._named.get(transactional_id)
            if found is None:
                found = AsyncTransactional(self._broker, transactional_id, timeout_ms, sending)
                self._named[transactional_id] = found
            found.set_timeout(timeout_ms)
            found.sending = sending or found.sending
            return found

    def choose(self, transactional_id: str | None, timeout_ms: int) -> AsyncTransactional:
        """For one transaction: without an id, one that is idle."""
        self._broker.check_fork()
        if transactional_id is not None:
            return self.get(transactional_id, timeout_ms)
        with self._mutex:
            self._unnamed = [each for each in self._unnamed if not each.is_closed]
            free = (each for each in self._unnamed if not each.is_reserved and each.timeout_ms == timeout_ms)
            chosen = next(free, None)
            if chosen is None:
                chosen = AsyncTransactional(self._broker, None, timeout_ms)
                self._unnamed.append(chosen)
            chosen.reserve()
            return chosen

    async def close(self) -> None:
        """Aborts what is open, if the broker can be reached immediately."""
        with self._mutex:
            known = [*self._named.values(), *self._unnamed, *self._handed_out]
        for each in known:
            await each.close()
