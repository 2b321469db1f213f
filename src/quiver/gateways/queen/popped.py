"""Leased messages as a pop shows them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.media import Media
from quiver.gateways.queen.acks.leased_messages import LeasedBatch
from quiver.gateways.queen.identifiers import LeaseId, LeasePlace, partition_id
from quiver.gateways.queen.messages import TRANSACTION_HEADER, own_id, payload, shown_time, trace_id
from quiver.gateways.queen.queues import QUEUE_MODE, partition_name
from quiver.records.header import unpack_header
from quiver.records.read import open_frame
from quiver.system.pace import Pace

if TYPE_CHECKING:
    from quiver.queues.service import Received


class PoppedMessage(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    transaction_id: str
    trace_id: str | None
    data: Any
    producer_sub: None = None
    created_at: str
    partition_id: str
    partition: str
    lease_id: Annotated[str, Meta(description="Empty with `autoAck`.")]
    consumer_group: str | None
    queue: str


class PopResponse(msgspec.Struct, kw_only=True, rename="camel"):
    """Queue and partition are those of the first message."""

    success: bool
    queue: str
    partition: str
    partition_id: str
    lease_id: str
    consumer_group: str | None
    partitions_claimed: int
    messages: list[PoppedMessage]


class Popped:
    """What one pop got, in the order of delivery."""

    def __init__(self, received: "Sequence[Received]", group: str, *, is_acked: bool) -> None:
        self._received = received
        self._group = None if group == QUEUE_MODE else group
        places = {LeasePlace(one.topic.id, one.run.partition, one.run.lease_id): None for one in received}
        self._lease_id = "" if is_acked else str(LeaseId(received[0].run.group_id, tuple(places)))
        self._batches: dict[tuple[int, int, bytes | None], LeasedBatch] = {}

    @property
    def size_bytes(self) -> int:
        headers = (unpack_header(one.run.frame) for one in self._received)
        return sum(header.uncompressed_length or header.frame_bytes for header in headers)

    @property
    def batches(self) -> list[LeasedBatch]:
        """By partition, once `messages` has gone through them."""
        return list(self._batches.values())

    async def messages(self, media: Media) -> list[PoppedMessage]:
        found: list[PoppedMessage] = []
        pace = Pace()
        for one in self._received:
            for message in self._of_run(one, media):
                found.append(message)
                if not len(found) % 100:
                    await pace.turn()
            await pace.turn()
        return found

    def _of_run(self, one: "Received", media: Media) -> Iterator[PoppedMessage]:
        topic_id, partition, frame = one.topic.id, one.run.partition, open_frame(one.run.frame)
        created_at = shown_time(frame.header.append_time_ms)
        for offset, key, value, headers in zip(
            frame.offsets(), frame.keys(), frame.values(), frame.headers(), strict=True
        ):
            id = own_id(headers, topic_id, partition, offset)
            given = headers.get(TRANSACTION_HEADER)
            transaction = id if given is None else given.decode(errors="replace")
            self._batch(one, key).add(transaction, offset)
            yield PoppedMessage(
                id=id,
                transaction_id=transaction,
                trace_id=trace_id(headers),
                data=payload(value, media),
                created_at=created_at,
                partition_id=partition_id(topic_id, key),
                partition=partition_name(key),
                lease_id=self._lease_id,
                consumer_group=self._group,
                queue=one.topic.name,
            )

    def _batch(self, one: "Received", key: bytes | None) -> LeasedBatch:
        place = (one.run.partition, one.run.lease_id, key)
        batch = self._batches.get(place)
        if batch is None:
            batch = self._batches[place] = LeasedBatch(*place)
        return batch

    def response(self, messages: list[PoppedMessage]) -> PopResponse:
        first = messages[0]
        return PopResponse(
            success=True,
            queue=first.queue,
            partition=first.partition,
            partition_id=first.partition_id,
            lease_id=self._lease_id,
            consumer_group=self._group,
            partitions_claimed=len({message.partition_id for message in messages}),
            messages=messages,
        )
