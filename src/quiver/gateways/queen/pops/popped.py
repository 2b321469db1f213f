"""Leased messages as a pop shows them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.response import Response
from quiver.gateways.queen.acks.leased_messages import LeasedBatch
from quiver.gateways.queen.identifiers import LeaseId, LeasePlace, message_id, partition_id
from quiver.gateways.queen.messages import TRANSACTION_HEADER, own_id, payload, shown_time, trace_id
from quiver.gateways.queen.pops.pop_json import plain_run
from quiver.gateways.queen.queues import QUEUE_MODE, partition_name
from quiver.records.header import unpack_header
from quiver.records.read import OpenFrame, open_frame
from quiver.system.pace import Pace

if TYPE_CHECKING:
    from quiver.queues.service import Received


_BEFORE_COMMON = b'{"id":"","transactionId":"","traceId":null,"data":null'
"""What each message has of its own; the rest is the same for all of a run."""


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
        self._partitions: dict[tuple[str, bytes | None], str] = {}
        """The ids of the queues' partitions, in the order of delivery."""

    @property
    def size_bytes(self) -> int:
        headers = (unpack_header(one.run.frame) for one in self._received)
        return sum(header.uncompressed_length or header.frame_bytes for header in headers)

    @property
    def batches(self) -> list[LeasedBatch]:
        """By partition, once the response is made."""
        return list(self._batches.values())

    async def response(self, media: Media) -> Response:
        if media is not JSON:
            pace, messages = Pace(), list[PoppedMessage]()
            for one in self._received:
                for message in self._of_run(one, open_frame(one.run.frame), media):
                    messages.append(message)
                    if not len(messages) % 100:
                        await pace.turn()
            return Response(self._shown(messages))
        pace, runs = Pace(), list[bytes]()
        for one in self._received:
            frame = open_frame(one.run.frame)
            runs.append(self._plain(one, frame) or JSON.encode(list(self._of_run(one, frame, media)))[1:-1])
            await pace.turn()
        around = JSON.encode(self._shown([]))
        return Response(b"".join((around[:-2], b",".join(runs), b"]}")), content_type=JSON.content_type)

    def _plain(self, one: "Received", frame: OpenFrame) -> bytes | None:
        """The messages of a run as JSON, if they need nothing special."""
        plain = plain_run(frame)
        if plain is None:
            return None
        topic_id, partition = one.topic.id, one.run.partition
        before = message_id(topic_id, partition, plain.offsets[0])[:-12].encode()
        self._batch(one, plain.key).extend(plain.transaction_ids(before), plain.offsets)
        last = PoppedMessage(
            id="",
            transaction_id="",
            trace_id=None,
            data=None,
            created_at=shown_time(frame.header.append_time_ms),
            partition_id=self._partition_id(one, plain.key),
            partition=partition_name(plain.key),
            lease_id=self._lease_id,
            consumer_group=self._group,
            queue=one.topic.name,
        )
        return plain.json(before, JSON.encode(last)[len(_BEFORE_COMMON) :])

    def _of_run(self, one: "Received", frame: OpenFrame, media: Media) -> Iterator[PoppedMessage]:
        topic_id, partition = one.topic.id, one.run.partition
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
                partition_id=self._partition_id(one, key),
                partition=partition_name(key),
                lease_id=self._lease_id,
                consumer_group=self._group,
                queue=one.topic.name,
            )

    def _partition_id(self, one: "Received", key: bytes | None) -> str:
        return self._partitions.setdefault((one.topic.name, key), partition_id(one.topic.id, key))

    def _batch(self, one: "Received", key: bytes | None) -> LeasedBatch:
        place = (one.run.partition, one.run.lease_id, key)
        batch = self._batches.get(place)
        if batch is None:
            batch = self._batches[place] = LeasedBatch(*place)
        return batch

    def _shown(self, messages: list[PoppedMessage]) -> PopResponse:
        """Once all messages were gone through."""
        (queue, key), id = next(iter(self._partitions.items()))
        return PopResponse(
            success=True,
            queue=queue,
            partition=partition_name(key),
            partition_id=id,
            lease_id=self._lease_id,
            consumer_group=self._group,
            partitions_claimed=len(self._partitions),
            messages=messages,
        )
