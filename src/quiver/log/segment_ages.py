"""The ages of segments, also of those that were written with a clock that was ahead."""

from quiver.log.retention import PassedTimes
from quiver.log.segment.segment import Segment
from quiver.system.files import Files


class SegmentAges:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._first_times, self._last_times = PassedTimes(), PassedTimes()

    def first_time(self, segment: Segment, now_ms: int) -> int:
        return self._first_times.passed(segment.base_offset, segment.times()[0], now_ms)

    def last_time(self, segment: Segment, now_ms: int) -> int:
        return self._last_times.passed(
            segment.base_offset, segment.times()[1], now_ms, lambda: self._last_written(segment, now_ms)
        )

    def forget_below(self, offset: int) -> None:
        for passed in (self._first_times, self._last_times):
            passed.forget_below(offset)

    def _last_written(self, segment: Segment, now_ms: int) -> int:
        """According to the file system. If that time is in the future too, it is set to now."""
        try:
            written_ms = self._files.modified_ms(segment.path)
            if written_ms > now_ms:
                self._files.set_modified_ms(segment.path, now_ms)
        except OSError:
            return now_ms
        return written_ms
