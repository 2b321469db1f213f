"""A listening socket that several workers accept from, so that each has about as many connections as the others."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from quiver.system.shared_counts import SharedCounts
from quiver.telemetry.gateway_counts import GatewayCounts

_log = logging.getLogger(__name__)

_LET_OTHERS_SECONDS = 0.001
"""How long a worker that has more connections than another one leaves a new one to that."""
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS = 1.0


class WorkerShare:
    """How many connections this worker has, compared with the others."""

    def __init__(self, counts: SharedCounts, worker: int) -> None:
        self._counts, self._worker = counts, worker
        self.gateways: list[GatewayCounts] = []

    def has_more_than_another(self) -> bool:
        own = sum(gateway.connections for gateway in self.gateways)
        self._counts.set(self._worker, own)
        return own > self._counts.least_of_others(self._worker)


class SharedListener:
    """Accepts one connection at a time. All workers wake up for each; whoever has the fewest takes it, and the others
    take what it has left after a moment: it may be busy, or stopped.
    """

    def __init__(
        self, listener: socket.socket, share: WorkerShare, on_connection: Callable[[socket.socket], None]
    ) -> None:
        self._listener, self._share, self._on_connection = listener, share, on_connection
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()

    def _listen(self) -> None:
        self._waiting = None
        self._loop.add_reader(self._listener.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        if self._share.has_more_than_another():
            self._wait(_LET_OTHERS_SECONDS, self._accept_and_listen)
        else:
            self._accept()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._waiting = self._loop.call_later(seconds, then)

    def _accept_and_listen(self) -> None:
        self._listen()
        self._accept()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _OUT_OF_RESOURCES:
                raise
            _log.warning("cannot accept connections for a moment: %s", error.strerror)
            self._wait(_PAUSE_SECONDS, self._listen)
            return
        self._on_connection(connection)
