"""A replica's frames are sent where they are what the leader has; everything else comes from the leader."""

from collections.abc import Sequence
from typing import Any

import pytest

from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart
from quiver.records.header import HEADER_BYTES, StampedFrame, unpack_header
from quiver.routing.messages.near import NearReads
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Log, LogOptions
from quiver.testing.replication.frames import new_frame

PART = FetchPart(1, 0, 0, 1 << 20)
OPTIONS = FetchOptions(0, 1, 1 << 20, True, False, nearest=True)


class Leader:
    """Has frames, and says what it was asked for."""

    def __init__(self, frames: Sequence[StampedFrame]) -> None:
        self.frames = frames
        self.asked: list[tuple[bool, int]] = []

    async def fetch(self, worker: int, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        answer = []
        for part in parts:
            self.asked.append((options.headers_only, part.offset))
            pieces = [frame for frame in self.frames if frame.header.next_offset > part.offset]
            found = [
                bytes(each.header_bytes) + (b"" if options.headers_only else bytes(each.body)) for each in pieces
            ]
            answer.append(FetchedSlice(part, MemorySlice([b"".join(found)], 9) if found else None, log_start=0))
        return answer


class Replica:
    def __init__(self, log: Log | None) -> None:
        self._log, self.read_bytes = log, 0

    def log(self, worker: int, log_id: str) -> Log | None:
        return self._log if (worker, log_id) == (4, "topics/1/0") else None

    def count_read(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes


def frames(count: int, epoch: int = 1) -> list[StampedFrame]:
    return [new_frame(offset, epoch, 1_000 + offset, offset) for offset in range(count)]


async def replica_of(stored: Sequence[StampedFrame]) -> Replica:
    storage = MemoryStorage()
    log = await storage.open_log("topics/1/0", LogOptions())
    if stored:
        await log.append(list(stored), sync=True)
    return Replica(log)


async def read(leader: Leader, replica: Replica, options: FetchOptions = OPTIONS) -> list[int]:
    """The offsets that a reader gets."""
    near = NearReads(leader.fetch)
    near.replicas = replica
    assert near.has_some(4, [PART])
    [found] = await near.fetch(4, [PART], options)
    if found.slice is None:
        return []
    data, offsets, position = bytes(await found.slice.read()), [], 0
    while position < len(data):
        header = unpack_header(data, position)
        offsets.append(header.base_offset)
        stored = leader.frames[header.base_offset]
        assert data[position : position + header.frame_bytes] == bytes(stored.header_bytes) + bytes(stored.body)
        position += header.frame_bytes
    return offsets


async def test_frames_come_from_the_replica():
    leader, replica = Leader(frames(5)), await replica_of(frames(5))
    assert await read(leader, replica) == [0, 1, 2, 3, 4]
    assert leader.asked == [(True, 0)]
    assert replica.read_bytes == sum(frame.header.frame_bytes for frame in frames(5))


async def test_what_the_replica_lacks_is_read_later():
    leader, replica = Leader(frames(5)), await replica_of(frames(3))
    assert await read(leader, replica) == [0, 1, 2]
    assert leader.asked == [(True, 0)]


@pytest.mark.parametrize("stored", [[], frames(5, epoch=2)], ids=["nothing", "frames that were never committed"])
async def test_a_replica_without_the_frames_is_not_used(stored: Any):
    leader, replica = Leader(frames(5)), await replica_of(stored)
    assert await read(leader, replica) == [0, 1, 2, 3, 4]
    assert leader.asked == [(True, 0), (False, 0)]
    assert replica.read_bytes == 0


async def test_a_damaged_frame_comes_from_the_leader():
    stored = frames(5)
    damaged = stored[1]._replace(body=bytes(stored[1].body[:-1]) + b"x")
    replica = await replica_of([stored[0], damaged, *stored[2:]])
    assert await read(Leader(stored), replica) == [0], "the next fetch begins at the damaged one"
    replica = await replica_of([stored[0]._replace(body=b"x" * len(stored[0].body)), *stored[1:]])
    leader = Leader(stored)
    assert await read(leader, replica) == [0, 1, 2, 3, 4]
    assert leader.asked == [(True, 0), (False, 0)]


async def test_a_fetch_gets_no_more_than_it_wants():
    leader, replica = Leader(frames(5)), await replica_of(frames(5))
    size = leader.frames[0].header.frame_bytes
    assert await read(leader, replica, OPTIONS.with_(max_bytes=2 * size + HEADER_BYTES)) == [0, 1]
    assert await read(leader, replica, OPTIONS.with_(max_bytes=1)) == [0], "at least one frame"


async def test_other_partitions_have_no_replica_here():
    near = NearReads(Leader([]).fetch)
    assert not near.has_some(4, [PART])
    near.replicas = await replica_of(frames(1))
    assert not near.has_some(3, [PART])
    assert not near.has_some(4, [PART._replace(partition=1)])
