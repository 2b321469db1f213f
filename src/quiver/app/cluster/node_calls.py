"""Calls of replication between nodes: they go from gateway to gateway, which every node has."""

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from quiver.app.cluster.idle_calls import IdleCalls, IdleHandler, ReplicateIdle, is_idle
from quiver.links.peers import Peers
from quiver.links.request import Handlers, PeerRequest, Reply
from quiver.log.files.write_error import storage_error
from quiver.replication.messages import (
    Buffer,
    Message,
    Position,
    decode_message,
    decode_position,
    encode,
)


class Replicate(PeerRequest[bytes], frozen=True):
    capability, method = "replication", "call"
    needs_view = False
    message: bytes


class Replicas(Protocol):
    def handle(self, message: Message, payload: Buffer = b"") -> Coroutine[Any, Any, Position]: ...


class NodeCalls:
    """How a node reaches the others. `peers` is there before the first call."""

    def __init__(self) -> None:
        self.peers: Peers
        self._idle = IdleCalls()

    async def call(self, node: int, message: Message, payload: Sequence[Buffer] = ()) -> Position:
        if is_idle(message) and (position := await self._idle.call(self.peers, node, message)) is not None:
            return position
        reply = await self.peers.call(str(node), Replicate(encode(message)), payload)
        return decode_position(reply.value)


def serve_node_calls(handlers: Handlers, replicas: Replicas) -> None:
    async def follow(message: Message, payload: Buffer = b"") -> Position:
        """The leader tries again: a disk that is full may have room then."""
        try:
            return await replicas.handle(message, payload)
        except OSError as error:
            raise storage_error(f"the replicas of worker {message.unit}", error) from error

    async def handle(request: Replicate, payload: memoryview) -> Reply[bytes]:
        return Reply(encode(await follow(decode_message(request.message), payload)))

    handlers.add(Replicate, handle)
    handlers.add(ReplicateIdle, IdleHandler(follow))
