"""A link to a worker of the same process: calls are begun as those over a socket, without being encoded.

What is passed belongs to the receiver from then on, as it would over a socket.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from quiver.links.channel import Results
from quiver.links.incoming_calls import Gate, IncomingCalls, MetadataView
from quiver.links.request import Handlers, PeerRequest, Reply
from quiver.model.errors import QuiverError
from quiver.protocol.packet import Buffer

logger = logging.getLogger(__name__)

_CALL_BYTES = 200
"""A call without its payload."""


class DirectChannel:
    queued_bytes = 0

    def __init__(
        self,
        caller: str,
        results: Results,
        handlers: Handlers,
        view: MetadataView,
        gate: Gate,
        on_closed: Callable[["DirectChannel"], None],
    ) -> None:
        self._results, self._handlers, self._on_closed = results, handlers, on_closed
        self.calls = IncomingCalls(caller, self, view, gate)
        self._is_closed = False

    def send(self, correlation: int, request: PeerRequest[Any], payload: Sequence[Buffer], revision: int) -> int:
        whole = _joined(payload)
        try:
            handle = self._handlers.of(type(request))
        except QuiverError as error:
            self._results.failed(correlation, error)
            return 0
        self.calls.take_request(correlation, request, handle, whole, revision)
        return whole.nbytes + _CALL_BYTES

    def cancel(self, correlation: int) -> None:
        self.calls.cancel(correlation)

    def end(self) -> None:
        """Nobody in this process is silent."""

    def close(self) -> None:
        """As when a socket breaks: what the caller was waiting for ends."""
        if not self._is_closed:
            self._is_closed = True
            self.calls.end_waiting()
            self._on_closed(self)

    async def finish(self, grace_seconds: float) -> None:
        """The worker that is called stops."""
        await self.calls.finish(grace_seconds)
        if not self._is_closed:
            self._is_closed = True
            self._on_closed(self)
            self._results.broken(self, "has stopped")

    def reply(self, correlation: int, reply: "Reply[Any]") -> None:
        if not self._is_closed:
            self._results.heard()
            payload = _joined(reply.payload)
            self._results.replied(correlation, Reply(reply.value, (payload,) if payload else ()))

    def fail(self, correlation: int, error: QuiverError) -> None:
        if not self._is_closed:
            self._results.failed(correlation, error)


def _joined(payload: Sequence[Buffer]) -> memoryview:
    if not payload:
        return memoryview(b"")
    if len(payload) == 1:
        return memoryview(payload[0]).cast("B")
    return memoryview(b"".join(payload))
