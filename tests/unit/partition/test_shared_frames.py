"""Messages that share frames: what is wrong with one is the fault of that one, whatever it is."""

import asyncio
from typing import Any

import pytest

from quiver.model.errors import FrameTooLarge, Overloaded, QuiverError
from quiver.model.limits import KIB, Limits
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Appended, Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.records.read import open_frame, split_frames
from quiver.storage.memory.storage import MemoryStorage
from quiver.system.clock import SystemClock

LIMITS = Limits(message_bytes=64 * KIB, frame_bytes=64 * KIB, partition_queue_bytes=256 * KIB)


async def open_partition(limits: Limits = LIMITS, **options: Any) -> Partition:
    config = TopicConfig()
    log = await MemoryStorage().open_log("topics/1/0", log_options(config))
    partition = Partition(
        "t-0", log, PartitionSettings(config, limits, **options), leader_epoch=1, clock=SystemClock()
    )
    await partition.recover()
    return partition


async def outcomes(futures: list["asyncio.Future[Appended]"]) -> list[int | type]:
    """Offsets, or the kind of the error."""
    done = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 10)
    return [type(each) if isinstance(each, BaseException) else each.base_offset for each in done]


async def stored(partition: Partition) -> list[bytes | None]:
    part = await partition.log.read(0, max_bytes=1 << 24)
    data = b"" if part is None else await part.read()
    return [value for position, _ in split_frames(data) for value in open_frame(data, position).values()]


def message(value: bytes, id: Any = None) -> NewMessage:
    return NewMessage(value=value, id=id)


async def test_a_message_near_the_frame_limit_has_a_frame_of_its_own() -> None:
    partition = await open_partition()
    values = [b"s" * 30_000, b"B" * (64 * KIB - 1000), b"t" * 30_000, b"small"]
    assert await outcomes([partition.append_message(message(value)) for value in values]) == [0, 1, 2, 3]
    assert await stored(partition) == values
    await partition.close()


async def test_a_message_that_fits_into_no_frame_is_refused_alone_and_the_next_ones_are_written() -> None:
    partition = await open_partition()
    values = [b"before", b"B" * (64 * KIB), b"after"]
    assert await outcomes([partition.append_message(message(value)) for value in values]) == [0, FrameTooLarge, 1]
    assert await outcomes([partition.append_message(message(b"later"))]) == [2]
    await partition.close()


@pytest.mark.parametrize("at", [0, 3, 6])
async def test_an_unexpected_error_in_a_shared_frame_refuses_one_message(at: int) -> None:
    partition = await open_partition()
    ids: list[Any] = [f"id-{number}".encode() for number in range(7)]
    ids[at] = "text where bytes belong"
    found = await outcomes([partition.append_message(message(b"%d" % n, id)) for n, id in enumerate(ids)])
    assert found[at] is QuiverError
    assert [each for each in found if each is not QuiverError] == [0, 1, 2, 3, 4, 5]
    again = await partition.append_message(message(b"again", ids[at - 1]))
    assert again.duplicate, "the ids of the others are known"
    await partition.close()


async def test_a_repeat_within_messages_that_are_placed_again_is_still_one() -> None:
    partition = await open_partition()
    ids: list[Any] = [b"a", "text where bytes belong", b"b", b"a"]
    futures = [partition.append_message(message(b"v", id)) for id in ids]
    assert await outcomes(futures) == [0, QuiverError, 1, 0]
    assert futures[3].result().duplicate
    assert await stored(partition) == [b"v", b"v"]
    await partition.close()


async def test_a_frame_that_cannot_be_opened_does_not_fail_its_neighbours() -> None:
    partition = await open_partition()
    good = build_frame([b"good"], timestamp_ms=1, ids=[b"x"], producer_id=7, producer_epoch=0, base_sequence=0)
    bad = bytearray(
        build_frame([b"bad"], timestamp_ms=1, ids=[b"y"], producer_id=8, producer_epoch=0, base_sequence=0)
    )
    header = unpack_header(bytes(bad))
    bad[88:] = bytes(len(bad) - 88)
    futures = [
        partition.append_message(message(b"single")),
        partition.append(bytes(bad), header),
        partition.append(good, unpack_header(good)),
    ]
    found = await outcomes(futures)
    assert found[0] == 0
    assert found[2] == 1
    assert isinstance(found[1], type)
    assert partition.next_sequence(8, 0) == 0, "nothing is remembered of what was refused"
    assert partition.next_sequence(7, 0) == 1
    await partition.close()


async def test_what_shares_a_frame_counts_as_waiting() -> None:
    partition = await open_partition(message_batch_bytes=16 * KIB)
    futures = [partition.append_message(message(b"x" * 8000)) for _ in range(32)]
    with pytest.raises(Overloaded):
        partition.append_message(message(b"x" * 8000))
    assert await outcomes(futures) == list(range(32))
    assert await outcomes([partition.append_message(message(b"x" * 8000))]) == [32]
    await partition.close()


async def test_a_watcher_that_raises_keeps_nobody_from_hearing() -> None:
    partition = await open_partition()
    heard: list[int] = []

    def broken() -> None:
        raise RuntimeError("a defect")

    for wake in (broken, lambda: heard.append(1)):
        partition.committed.watch(wake)
    for _ in range(2):
        await asyncio.wait_for(partition.append_message(message(b"x")), 10)
    assert heard == [1, 1]
    await partition.close()
