"""What idle units say to one node in the same turn of the loop: one call, however many units there are."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, Reply
from quiver.model.errors import ProtocolError, QuiverError, UnsupportedVersion
from quiver.replication.messages import Append, Message, Position, decode_message, decode_position, encode

logger = logging.getLogger(__name__)

_AT_ONCE_SECONDS = 0.1
_MOST = 256


class ReplicateIdle(PeerRequest[list[bytes | None]], frozen=True):
    """Empty appends of several units. None in the result: that one is to be sent alone, to see what becomes of it."""

    capability, method = "replication", "idle"
    needs_view = False
    since = 2
    messages: list[bytes]


def is_idle(message: Message) -> bool:
    return isinstance(message, Append) and not message.parts and not message.removed


_Waiting = tuple[Message, "asyncio.Future[Position | None]"]


class IdleCalls:
    def __init__(self) -> None:
        self._waiting: dict[int, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, peers: Peers, node: int, message: Message) -> Position | None:
        """None: it has to be sent alone."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get(node)
        if waiting is None:
            waiting = self._waiting[node] = []
            loop.call_soon(self._begin, peers, node)
        future: asyncio.Future[Position | None] = loop.create_future()
        waiting.append((message, future))
        return await future

    def _begin(self, peers: Peers, node: int) -> None:
        waiting = self._waiting.pop(node)
        for first in range(0, len(waiting), _MOST):
            together = waiting[first : first + _MOST]
            if len(together) == 1:
                _set(together, [None])
                continue
            task = asyncio.get_running_loop().create_task(_send(peers, node, together))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _send(peers: Peers, node: int, together: list[_Waiting]) -> None:
    try:
        reply = await peers.call(str(node), ReplicateIdle([encode(message) for message, _ in together]))
        positions = [None if each is None else decode_position(each) for each in reply.value]
        _set(together, positions if len(positions) == len(together) else [None] * len(together))
    except (UnsupportedVersion, ProtocolError):
        _set(together, [None] * len(together))
    except (QuiverError, OSError) as error:
        for _, future in together:
            if not future.done():
                future.set_exception(error)


def _set(together: list[_Waiting], positions: Sequence[Position | None]) -> None:
    for (_, future), position in zip(together, positions, strict=True):
        if not future.done():
            future.set_result(position)


class IdleHandler:
    """What the other node does with them. `handle` is for one message."""

    def __init__(self, handle: Callable[[Message], Coroutine[Any, Any, Position]]) -> None:
        self._handle = handle
        self._running: set[asyncio.Task[Position]] = set()

    async def __call__(self, request: ReplicateIdle, payload: memoryview) -> Reply[list[bytes | None]]:
        """No unit waits for another one that is just becoming a follower."""
        messages = [decode_message(each) for each in request.messages]
        tasks = [asyncio.get_running_loop().create_task(self._handle(message)) for message in messages]
        for task in tasks:
            self._running.add(task)
            task.add_done_callback(self._ended)
        if tasks:
            await asyncio.wait(tasks, timeout=_AT_ONCE_SECONDS)
        return Reply([encode(task.result()) if _has_succeeded(task) else None for task in tasks])

    def _ended(self, task: "asyncio.Task[Position]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("an empty append failed: %s", error)


def _has_succeeded(task: "asyncio.Task[Position]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
