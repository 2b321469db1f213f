"""What this worker does for others with the stream groups that it owns."""

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, Reply
from quiver.routing.streams.requests import (
    CommitByName,
    CommitPartitions,
    CommittedOffsets,
    ConnectionLost,
    Heartbeat,
    Join,
    Leave,
    NextOffsets,
    NextView,
    PartitionOffset,
)
from quiver.streams.member_view import MemberView


class StreamHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._streams, self._members = broker.streams, broker.streams.members
        handlers.add(Join, self._join)
        handlers.add(Heartbeat, self._heartbeat)
        handlers.add(NextView, self._next_view)
        handlers.add(Leave, self._leave)
        handlers.add(ConnectionLost, self._connection_lost)
        handlers.add(CommitByName, self._commit)
        handlers.add(CommitPartitions, self._commit_partitions)
        handlers.add(CommittedOffsets, self._committed)
        handlers.add(NextOffsets, self._next_offsets)

    async def _join(self, request: Join, payload: memoryview) -> Reply[MemberView]:
        view = await self._streams.join(
            request.group,
            request.subscription,
            member_id=request.member_id,
            protocol=request.protocol,
            assignor=request.assignor,
            start=request.start,
        )
        return Reply(view)

    async def _heartbeat(self, request: Heartbeat, payload: memoryview) -> Reply[MemberView]:
        view = await self._members.heartbeat(
            request.group,
            request.member_id,
            generation=request.generation,
            revoked=request.revoked,
            is_busy=request.is_busy,
        )
        return Reply(view)

    async def _next_view(self, request: NextView, payload: memoryview) -> Reply[MemberView]:
        return Reply(await self._members.next_view(request.group, request.view, request.wait_ms))

    async def _leave(self, request: Leave, payload: memoryview) -> Reply[None]:
        await self._members.leave(request.group, request.member_id)
        return DONE

    async def _connection_lost(self, request: ConnectionLost, payload: memoryview) -> Reply[None]:
        self._members.connection_lost(request.group, request.member_id)
        return DONE

    async def _commit(self, request: CommitByName, payload: memoryview) -> Reply[None]:
        await self._streams.commit(
            request.group,
            request.offsets,
            member_id=request.member_id,
            generation=request.generation,
            metadata=request.metadata,
            creates=request.creates,
        )
        return DONE

    async def _commit_partitions(self, request: CommitPartitions, payload: memoryview) -> Reply[None]:
        await self._streams.commit_partitions(
            request.group,
            dict(request.offsets),
            member_id=request.member_id,
            generation=request.generation,
            creates=request.creates,
        )
        return DONE

    async def _committed(self, request: CommittedOffsets, payload: memoryview) -> Reply[dict[str, dict[int, int]]]:
        return Reply(await self._streams.committed(request.group))

    async def _next_offsets(self, request: NextOffsets, payload: memoryview) -> Reply[list[PartitionOffset]]:
        return Reply(list((await self._streams.next_offsets(request.group, request.partitions)).items()))
