"""Fetches of partitions that another node leads, from the replica on this one.

The leader says which frames there are, by their headers; the frames come from here. A header has the checksum of its
body, so what is found here is what the leader would have sent. What is not here in the same way, the leader sends:
a replica may lack the newest frames, have some that were never committed, or have removed others in a compaction.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart, release
from quiver.model.errors import QuiverError
from quiver.records.header import HEADER_BYTES, body_crc, unpack_header
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.port import Log
from quiver.system.pace import Pace
from quiver.topics.partitions import partition_log_id

FromOwner = Callable[[int, Sequence[FetchPart], FetchOptions], Awaitable[list[FetchedSlice]]]


class Replicas(Protocol):
    def log(self, worker: int, log_id: str) -> Log | None:
        """This node's replica of a log of a worker that another node leads."""

    def count_read(self, size_bytes: int) -> None:
        """Frames of a replica were read for a client."""


class NearReads:
    """`replicas` is set where there are some."""

    def __init__(self, from_owner: FromOwner) -> None:
        self._from_owner = from_owner
        self.replicas: Replicas | None = None

    def has_some(self, worker: int, parts: Sequence[FetchPart]) -> bool:
        return any(self._log(worker, part) is not None for part in parts)

    def _log(self, worker: int, part: FetchPart) -> Log | None:
        replicas = self.replicas
        return None if replicas is None else replicas.log(worker, partition_log_id(part.topic_id, part.partition))

    async def fetch(self, worker: int, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        """As the owner would answer it."""
        answer = await self._from_owner(worker, parts, options.with_(headers_only=True))
        missing: list[int] = []
        budget = options.max_bytes
        try:
            for place, fetched in enumerate(answer):
                if fetched.slice is None:
                    continue
                headers = memoryview(await fetched.slice.read())
                most, is_first = min(fetched.part.max_bytes, budget), budget == options.max_bytes
                wanted = _beginning(headers, most) if most > 0 or is_first else headers[:0]
                found = await self._frames(worker, fetched.part, wanted) if wanted else None
                answer[place] = fetched._replace(slice=found)
                if found is not None:
                    budget -= found.length
                elif wanted:
                    missing.append(place)
            if missing and (budget > 0 or budget == options.max_bytes):
                await self._fill(worker, answer, missing, options.with_(max_wait_ms=0, max_bytes=budget))
        except BaseException:
            release(answer)
            raise
        return answer

    async def _fill(self, worker: int, answer: list[FetchedSlice], missing: list[int], options: FetchOptions) -> None:
        parts = [answer[place].part for place in missing]
        for place, fetched in zip(missing, await self._from_owner(worker, parts, options), strict=True):
            answer[place] = fetched

    async def _frames(self, worker: int, part: FetchPart, headers: memoryview) -> MemorySlice | None:
        """The frames that begin with these headers, as many as are here, if the first one is."""
        log = self._log(worker, part)
        if log is None:
            return None
        first, last = unpack_header(headers), unpack_header(headers, len(headers) - HEADER_BYTES)
        size_bytes = sum(unpack_header(headers, place).frame_bytes for place in range(0, len(headers), HEADER_BYTES))
        try:
            stored = await log.read(
                first.base_offset,
                max_bytes=size_bytes,
                end_offset=min(last.next_offset, log.readable_offset),
            )
            if stored is None:
                return None
            try:
                data = memoryview(await stored.read())
            finally:
                stored.release()
        except (QuiverError, OSError):
            return None
        same, end_offset = await _same(data, headers)
        if same and self.replicas is not None:
            self.replicas.count_read(same)
        return MemorySlice([data[:same]], end_offset) if same else None


def _beginning(headers: memoryview, max_bytes: int) -> memoryview:
    """As many of the headers as there is room for their frames; at least one."""
    size_bytes = 0
    for place in range(0, len(headers), HEADER_BYTES):
        size_bytes += unpack_header(headers, place).frame_bytes
        if place and size_bytes > max_bytes:
            return headers[:place]
    return headers


async def _same(data: memoryview, headers: memoryview) -> tuple[int, int]:
    """How many bytes are the frames of these headers, and the offset after them."""
    pace, position, end_offset = Pace(), 0, 0
    for place in range(0, len(headers), HEADER_BYTES):
        await pace.turn()
        head = data[position : position + HEADER_BYTES]
        header = unpack_header(headers, place)
        end = position + header.frame_bytes
        if head != headers[place : place + HEADER_BYTES] or end > len(data):
            break
        if body_crc(head, data[position + HEADER_BYTES : end]) != header.body_crc:
            break
        position, end_offset = end, header.next_offset
    return position, end_offset
