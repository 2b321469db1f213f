"""Leased messages as responses show them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.routes.messages.message import MessageResponse, show_content, shown_time
from quiver.model.message import StoredMessage
from quiver.model.priority import NAMES, Priority
from quiver.model.settlement import Receipt
from quiver.records.header import unpack_header
from quiver.records.read import open_frame

if TYPE_CHECKING:
    from quiver.queues.service import Received

_RUN_MESSAGES = 500
_RUN_FRAMES = 64
_RUN_BYTES = 256 * 1024
"""Messages are shown in runs of this size, small enough not to hold the event loop."""


class ReceivedMessage(MessageResponse, kw_only=True):
    """A message and its lease: the receipt names it, and it ends at the deadline."""

    receipt_handle: str
    attempt: Annotated[int, Meta(description="1 at the first delivery.")]
    first_delivered: str
    deadline: str
    last_error: str | UnsetType = UNSET


class Size:
    """How much a response will hold: frames, messages, and bytes of their content."""

    def __init__(self, received: "Sequence[Received]") -> None:
        headers = [unpack_header(one.run.frame) for one in received]
        self.frames = len(headers)
        self.messages = sum(header.record_count for header in headers)
        self.bytes = sum(header.uncompressed_length or header.frame_bytes for header in headers)

    @property
    def is_small(self) -> bool:
        return self.frames <= _RUN_FRAMES and self.messages <= _RUN_MESSAGES and self.bytes <= _RUN_BYTES


def shown_runs(received: "Sequence[Received]") -> Iterator[list[ReceivedMessage]]:
    """All messages in order of delivery, a run at a time. Each frame is opened when its turn comes."""
    run: list[ReceivedMessage] = []
    size = 0
    for opened, one in enumerate(received, 1):
        if run and not opened % _RUN_FRAMES:
            yield run
            run, size = [], 0
        for message in _messages(one):
            run.append(_to_response(one, message))
            size += len(message.value or b"") + len(message.key or b"")
            if len(run) >= _RUN_MESSAGES or size >= _RUN_BYTES:
                yield run
                run, size = [], 0
    if run:
        yield run


def _messages(received: "Received") -> Iterator[StoredMessage]:
    frame = open_frame(received.run.frame)
    priority = Priority(frame.header.priority)
    columns = zip(frame.offsets(), frame.timestamps(), frame.keys(), frame.values(), frame.headers(), strict=True)
    for offset, timestamp_ms, key, value, headers in columns:
        yield StoredMessage(
            partition=received.run.partition,
            offset=offset,
            timestamp_ms=timestamp_ms,
            append_time_ms=frame.header.append_time_ms,
            key=key,
            value=value,
            headers=headers,
            priority=priority,
        )


def _to_response(received: "Received", message: StoredMessage) -> ReceivedMessage:
    topic, run = received.topic.name, received.run
    receipt = Receipt(topic, run.partition, message.offset, run.attempt, run.group_id, run.lease_id)
    shown = ReceivedMessage(
        topic=topic,
        partition=message.partition,
        offset=message.offset,
        timestamp=shown_time(message.timestamp_ms),
        appended_at=shown_time(message.append_time_ms),
        priority=NAMES[message.priority],
        receipt_handle=str(receipt),
        attempt=run.attempt,
        first_delivered=shown_time(run.first_delivered_ms),
        deadline=shown_time(run.deadline_ms),
        last_error=run.last_error or UNSET,
    )
    show_content(shown, message)
    return shown
