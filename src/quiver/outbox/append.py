"""The append that completes a move: a frame with the source's own producer id, which the target stores once."""

from collections.abc import Sequence
from typing import Unpack

from quiver.model.limits import SEQUENCE_LIMIT
from quiver.model.message import NewMessage
from quiver.partition.partition import Appended, Partition
from quiver.records.build import FrameOptions, build_frame
from quiver.records.header import unpack_header


async def append_moved(
    partition: Partition, *, mover: int, sequence: int, messages: Sequence[NewMessage], schema_id: int = 0
) -> Appended:
    """Appends messages of one priority as one frame, and returns when they are as durable as the topic requires.

    Every message needs its timestamp; `deliver_at_ms` and `partition` have no meaning here. What was accepted once is
    accepted again: the limits of the topic are not applied. A repeat returns a `duplicate`, with base offset -1 if
    the target only knows that it was stored.

    Appends of one mover to one partition must be made in the order of their sequences, one after another: the target
    treats everything below the last one as a repeat. A move may be appended as several frames; message n of the move
    then has the sequence of the move plus n, whatever was left out before it, so a repeat may be cut into
    frames in another way.
    """
    sequence %= SEQUENCE_LIMIT
    passed = partition.passed(mover, sequence)
    if 0 < passed < len(messages):
        messages, sequence = messages[passed:], (sequence + passed) % SEQUENCE_LIMIT
    return await _append(
        partition, messages, producer_id=mover, producer_epoch=0, base_sequence=sequence, schema_id=schema_id
    )


async def append_again(partition: Partition, *, messages: Sequence[NewMessage], schema_id: int = 0) -> Appended:
    """Like append_moved, for messages that go back to their origin: repeats are not recognised."""
    return await _append(partition, messages, schema_id=schema_id)


async def _append(partition: Partition, messages: Sequence[NewMessage], **options: Unpack[FrameOptions]) -> Appended:
    frame = build_frame(
        [message.value for message in messages],
        keys=[message.key for message in messages],
        timestamps_ms=[message.timestamp_ms for message in messages],  # type: ignore[misc]
        headers=[message.headers for message in messages],
        expires_at_ms=[message.expires_at_ms for message in messages],
        ids=[message.id for message in messages],
        priority=messages[0].priority,
        **options,
    )
    return await partition.append(frame, unpack_header(frame), check_ids=False)
