# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""What the parts of a consumer share: its buffer, refusals, and events."""

from collections import deque
from typing import Any

from quiver.client._backend_sync import Lock, Signal
from quiver.client._sync.connection.reconnecting import ReconnectingConnection
from quiver.client.work.options import WorkConfig
from quiver.client.work.prefetch_buffer import PrefetchBuffer
from quiver.model.errors import QuiverError

_ERRORS_KEPT = 100


class ConsumerState:
    """Used by the caller who takes jobs, by the background loop, and where responses arrive."""

    def __init__(self, broker: ReconnectingConnection, config: WorkConfig) -> None:
        self.broker = broker
        self.config = config
        self.is_ordered = config.ordering == "key"
        """Whether messages of a key come in order, one lease at a time."""
        self.buffer: PrefetchBuffer[Any] = PrefetchBuffer()
        self.errors: deque[QuiverError] = deque(maxlen=_ERRORS_KEPT)
        """Refusals that no caller waited for: raised when the next job is asked for."""
        self.taking = Lock()
        """Held while messages are taken from the buffer."""
        self.loop_wake = Signal()
        self.loop_sleeps_until = 0.0
        self.news = Signal()
        """Wakes everybody who waits for jobs or for responses."""

    def note_received(self) -> None:
        """Messages have arrived, or none will arrive any more."""
        self.news.set()
        self.loop_wake.set()

    def note_refused(self, error: QuiverError) -> None:
        """Something was refused that no caller waits for, or messages are damaged."""
        self.errors.append(error)
        self.buffer.return_all()
        self.news.set()
