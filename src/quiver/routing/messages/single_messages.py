"""Single messages for other workers: those of one turn of the loop leave in one call per worker."""

import asyncio
from functools import partial

from quiver.links.peers import Peers
from quiver.links.request import Reply
from quiver.model.errors import QuiverError
from quiver.partition.pending import Appended
from quiver.protocol.link_messages import link_error
from quiver.routing.messages.requests import ChosenMessage, Publish, PublishOutcome

_MESSAGES_PER_CALL = 1000


class SingleMessages:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._queued: dict[int, list[tuple[ChosenMessage, asyncio.Future[Appended]]]] = {}
        """By worker, until the turn ends."""

    def begin(self, worker: int, message: ChosenMessage) -> "asyncio.Future[Appended]":
        """Messages for one worker are sent in the order of these calls."""
        loop = asyncio.get_running_loop()
        if not self._queued:
            loop.call_soon(self._send)
        future: asyncio.Future[Appended] = loop.create_future()
        self._queued.setdefault(worker, []).append((message, future))
        return future

    def _send(self) -> None:
        queued, self._queued = self._queued, {}
        for worker, messages in queued.items():
            for start in range(0, len(messages), _MESSAGES_PER_CALL):
                self._send_some(worker, messages[start : start + _MESSAGES_PER_CALL])

    def _send_some(self, worker: int, messages: list[tuple[ChosenMessage, "asyncio.Future[Appended]"]]) -> None:
        futures = [future for _, future in messages]
        try:
            call = self._peers.begin(worker, Publish([message for message, _ in messages]))
        except QuiverError as error:
            _fail(futures, error)
            return
        call.add_done_callback(partial(_end, futures))


def _end(futures: "list[asyncio.Future[Appended]]", call: "asyncio.Future[Reply[list[PublishOutcome]]]") -> None:
    if (error := call.exception()) is not None:
        _fail(futures, error)
        return
    for future, outcome in zip(futures, call.result().value, strict=True):
        if future.done():
            continue
        if outcome.failure is not None:
            future.set_exception(link_error(outcome.failure))
        elif outcome.appended is not None:
            future.set_result(outcome.appended)


def _fail(futures: "list[asyncio.Future[Appended]]", error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
