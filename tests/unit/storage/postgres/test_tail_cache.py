"""The cache of the ends of logs keeps to its size, and what leaves it with its log is forgotten."""

from quiver.storage.postgres.appending.tail_cache import CachedTail, TailCache
from unit.log.frames import frame_at, frame_bytes

MAX_BYTES = 100_000
ROUNDS = 10_000


def _add(cache: TailCache, tail: CachedTail, offset: int, count: int, size: int = 8) -> None:
    frames = [frame_at(offset + number, body=b"x" * size) for number in range(count)]
    cache.add(tail, frames, [frame_bytes(frame) for frame in frames])


def test_logs_that_come_and_go_leave_nothing() -> None:
    cache = TailCache(MAX_BYTES)
    kept = CachedTail(cache)
    _add(cache, kept, 0, 3)
    size = cache.size_bytes
    for _ in range(ROUNDS):
        tail = CachedTail(cache)
        _add(cache, tail, 0, 2)
        tail.clear()
        assert cache.size_bytes == size
        assert cache.frame_count == 3
    assert kept.read(0, max_bytes=MAX_BYTES, end_offset=3) is not None


def test_small_frames_count_with_what_they_cost() -> None:
    cache = TailCache(MAX_BYTES)
    tail = CachedTail(cache)
    for offset in range(0, ROUNDS, 100):
        _add(cache, tail, offset, 100)
    assert cache.size_bytes <= MAX_BYTES
    assert cache.frame_count * 256 <= MAX_BYTES
    assert tail.size_bytes == cache.size_bytes


def test_the_oldest_leave_also_after_a_clear() -> None:
    cache = TailCache(MAX_BYTES)
    cleared, first, second = CachedTail(cache), CachedTail(cache), CachedTail(cache)
    _add(cache, first, 0, 10, 1_000)
    _add(cache, cleared, 0, 10, 1_000)
    cleared.clear()
    _add(cache, cleared, 0, 10, 1_000)
    _add(cache, second, 0, 70, 1_000)
    assert first.read(0, max_bytes=MAX_BYTES, end_offset=10) is None
    assert second.read(69, max_bytes=MAX_BYTES, end_offset=70) is not None
    assert sum(tail.size_bytes for tail in (cleared, first, second)) == cache.size_bytes <= MAX_BYTES
