"""Which segments retention removes, and when an active one is closed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

_SIZE_SHARE = 4  # an active segment above this share of retention_bytes is closed, so that size limits hold on it too


class SegmentAge(NamedTuple):
    size_bytes: int
    last_append_time_ms: int


class PassedTimes:
    """Append times that ages can be counted from.

    A time in the future, given by a clock that was ahead and has been set back since, is replaced by the time at
    which retention first saw it, or by an earlier known one. So messages stored with a wrong clock get old too.
    """

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        """By the base offset of the segment."""

    def passed(self, base_offset: int, time_ms: int, now_ms: int, known_ms: Callable[[], int] | None = None) -> int:
        """`known_ms` is when the segment was written according to another clock."""
        if time_ms <= now_ms:
            self._met.pop(base_offset, None)
            return time_ms
        met = self._met.get(base_offset)
        if met is None:
            met = now_ms if known_ms is None else known_ms()
        self._met[base_offset] = min(met, now_ms)
        return self._met[base_offset]

    def forget_below(self, offset: int) -> None:
        self._met = {base_offset: met for base_offset, met in self._met.items() if base_offset >= offset}


def is_due_to_roll(
    *,
    size_bytes: int,
    first_append_time_ms: int,
    now_ms: int,
    roll_after_ms: int,
    retention_bytes: int | None,
) -> bool:
    """Whether a non-empty active segment is closed now."""
    if now_ms - first_append_time_ms >= roll_after_ms:
        return True
    return retention_bytes is not None and size_bytes * _SIZE_SHARE >= retention_bytes


def count_to_drop(
    closed: Sequence[SegmentAge],
    *,
    total_bytes: int,
    now_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
) -> int:
    """How many of the closed segments, oldest first, are to be removed. `total_bytes` counts the active one too."""
    count = 0
    for segment in closed:
        too_old = retention_ms is not None and now_ms - segment.last_append_time_ms > retention_ms
        too_much = retention_bytes is not None and total_bytes > retention_bytes
        if not (too_old or too_much):
            break
        total_bytes -= segment.size_bytes
        count += 1
    return count
