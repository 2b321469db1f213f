"""What this worker does with its partitions for others."""

import asyncio
import errno
from collections.abc import Sequence

from quiver.broker.broker import Broker
from quiver.links.request import Handlers, Reply
from quiver.messages.browse import BrowseRequest, MessagePage
from quiver.messages.fetch import FetchedSlice
from quiver.messages.publish import PublishFuture
from quiver.model.errors import QuiverError
from quiver.partition.pending import Appended
from quiver.protocol.link_messages import link_failure
from quiver.protocol.packet import Buffer
from quiver.routing.messages.requests import (
    ChosenMessage,
    Fetch,
    FindId,
    FindOffset,
    InitProducer,
    PartFound,
    Produce,
    Publish,
    PublishOutcome,
    Read,
    WasGiven,
)


class MessageHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        handlers.add(Produce, self._produce)
        handlers.add(Publish, self._publish)
        handlers.add(Fetch, self._fetch)
        handlers.add(FindOffset, self._find_offset)
        handlers.add(FindId, self._find_id)
        handlers.add(Read, self._read)
        handlers.add(InitProducer, self._init_producer)
        handlers.add(WasGiven, self._was_given)

    async def _produce(self, request: Produce, payload: memoryview) -> Reply[Appended]:
        """Queued before it waits, so that frames of one worker are written in the order in which they were sent."""
        appended = self._broker.produce(
            request.topic_id,
            request.partition,
            payload,
            partition_count=request.partition_count,
            alone=request.alone,
        )
        return Reply(await appended)

    async def _publish(self, request: Publish, payload: memoryview) -> Reply[list[PublishOutcome]]:
        begun = [self._begin(each) for each in request.messages]
        await asyncio.gather(
            *(each.future for each in begun if isinstance(each, PublishFuture)), return_exceptions=True
        )
        return Reply([_outcome(each) for each in begun])

    def _begin(self, chosen: ChosenMessage) -> PublishFuture | QuiverError:
        try:
            topic = self._broker.metadata.catalogue.topic_by_id(chosen.topic_id)
            self._broker.check_running()
            return self._broker.publishing.begin_at(topic, chosen.partition, chosen.message)
        except QuiverError as error:
            return error

    async def _fetch(self, request: Fetch, payload: memoryview) -> Reply[list[PartFound]]:
        fetched = await self._broker.fetch(request.parts, request.options)
        data = await _read_and_release(fetched)
        return Reply([_found(part) for part in fetched], tuple(data))

    async def _find_offset(self, request: FindOffset, payload: memoryview) -> Reply[int]:
        found = await self._broker.find_offset(
            request.topic_id, request.partition, request.position, read_committed=request.read_committed
        )
        return Reply(found)

    async def _find_id(self, request: FindId, payload: memoryview) -> Reply[int | None]:
        return Reply(await self._broker.find_id(request.topic_id, request.partition, request.id))

    async def _read(self, request: Read, payload: memoryview) -> Reply[MessagePage]:
        browse = BrowseRequest(
            offset=request.offset,
            limit=request.limit,
            from_time_ms=request.from_time_ms,
            to_time_ms=request.to_time_ms,
            read_committed=request.read_committed,
            include_expired=request.include_expired,
            max_bytes=request.max_bytes,
        )
        return Reply(await self._broker.read_messages(request.topic, request.partition, browse))

    async def _init_producer(self, request: InitProducer, payload: memoryview) -> Reply[tuple[int, int]]:
        return Reply(await self._broker.init_producer(request.producer_id, request.epoch))

    async def _was_given(self, request: WasGiven, payload: memoryview) -> Reply[bool]:
        return Reply(self._broker.producer_contacts.was_given(request.producer_id, request.epoch))


def _outcome(begun: PublishFuture | QuiverError) -> PublishOutcome:
    if isinstance(begun, QuiverError):
        return PublishOutcome(None, link_failure(begun))
    if (error := begun.future.exception()) is not None:
        return PublishOutcome(None, link_failure(error))
    return PublishOutcome(begun.future.result())


async def _read_and_release(fetched: Sequence[FetchedSlice]) -> list[Buffer]:
    data: list[Buffer] = []
    slices = [part.slice for part in fetched if part.slice is not None]
    try:
        for each in slices:
            view = memoryview(each.read_at_once() or await each.read()).cast("B")[: each.length]
            if len(view) != each.length:
                raise OSError(errno.EIO, "stored bytes are shorter than announced")
            data.append(view)
    finally:
        for each in slices:
            each.release()
    return data


def _found(fetched: FetchedSlice) -> PartFound:
    part = fetched.slice
    return PartFound(
        None if part is None else part.length,
        0 if part is None else part.end_offset,
        fetched.log_start,
        fetched.high_watermark,
        fetched.last_stable,
        fetched.epoch,
        fetched.aborted,
        None if fetched.error is None else link_failure(fetched.error),
        fetched.ttl_ms,
        fetched.removed_count,
    )
