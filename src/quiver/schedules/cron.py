"""The times of a cron expression in a time zone. Pure.

A time of day that is skipped when the clocks go forward fires right after the gap; one that comes twice fires the
first time. Expressions with `*` in minute or hour, or with seconds, go by real time: they fire whenever the clock on
the wall shows a matching time: never in a gap, and twice if a time comes twice.
"""

from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
_SECOND_MS = 1000
_STEP_MS = 86_400_000
"""No time zone moves its clocks forward and back within a day."""


class TimeOfDayCron:
    """Five fields without `*` in minute and hour."""

    def __init__(self, expression: str, zone: tzinfo) -> None:
        self._expression = expression
        self._zone = zone

    def next_after(self, time_ms: int) -> int | None:
        try:
            for moment in CronSim(self._expression, self._local(time_ms)):
                fires_ms = (moment - EPOCH) // _MS
                if fires_ms > time_ms:  # if an hour comes twice, the simulation knows only the first
                    return fires_ms
        except OverflowError:
            pass
        return None

    def latest(self, time_ms: int) -> int | None:
        behind = self._local(time_ms - time_ms % _SECOND_MS + _SECOND_MS)
        try:
            for moment in CronSim(self._expression, behind, reverse=True):
                fired_ms = (moment - EPOCH) // _MS
                if fired_ms <= time_ms:
                    return fired_ms
        except OverflowError:
            pass
        return None

    def _local(self, time_ms: int) -> datetime:
        return (EPOCH + time_ms * _MS).astimezone(self._zone)


class RealTimeCron:
    """All other expressions, simulated from one change of the clocks to the next: in between, the wall clock runs
    like real time, however much the clocks are moved."""

    def __init__(self, expression: str, zone: tzinfo) -> None:
        self._expression = expression
        self._zone = zone

    def next_after(self, time_ms: int) -> int | None:
        after_ms, offset_ms = time_ms, self._offset_ms(time_ms)
        while (found_ms := self._simulated(after_ms, offset_ms)) is not None:
            change_ms = self._first_change(after_ms, found_ms, offset_ms)
            if change_ms is None:
                return found_ms
            after_ms, offset_ms = change_ms - 1, self._offset_ms(change_ms)
        return None

    def latest(self, time_ms: int) -> int | None:
        until_ms, offset_ms = time_ms, self._offset_ms(time_ms)
        while (found_ms := self._simulated(until_ms, offset_ms, reverse=True)) is not None:
            change_ms = self._last_change(found_ms, until_ms, offset_ms)
            if change_ms is None:
                return found_ms
            until_ms = change_ms - 1
            offset_ms = self._offset_ms(until_ms)
        return None

    def _simulated(self, time_ms: int, offset_ms: int, *, reverse: bool = False) -> int | None:
        """The first firing after a time, or the last up to it, if the clocks were never moved."""
        if reverse:  # the simulation leaves out the second at which it begins
            time_ms = time_ms - time_ms % _SECOND_MS + _SECOND_MS
        try:
            local = _NAIVE_EPOCH + (time_ms + offset_ms) * _MS
            moment = next(CronSim(self._expression, local, reverse=reverse), None)
        except OverflowError:
            return None
        return None if moment is None else (moment - _NAIVE_EPOCH) // _MS - offset_ms

    def _first_change(self, after_ms: int, until_ms: int, offset_ms: int) -> int | None:
        """When the clocks stop being ahead of UTC by the offset; None if that is not before the end."""
        low_ms = after_ms + 1
        while low_ms < until_ms:
            high_ms = min(low_ms + _STEP_MS, until_ms)
            if self._offset_ms(high_ms) != offset_ms:
                return self._change_between(low_ms, high_ms, self._offset_ms(high_ms))
            low_ms = high_ms
        return None

    def _last_change(self, from_ms: int, until_ms: int, offset_ms: int) -> int | None:
        """Since when the clocks are ahead of UTC by the offset; None if that is not after the beginning."""
        high_ms = until_ms
        while high_ms > from_ms:
            low_ms = max(high_ms - _STEP_MS, from_ms)
            if self._offset_ms(low_ms) != offset_ms:
                return self._change_between(low_ms, high_ms, offset_ms)
            high_ms = low_ms
        return None

    def _change_between(self, low_ms: int, high_ms: int, offset_ms: int) -> int:
        """The first millisecond of an offset that holds at the end and not at the beginning."""
        while high_ms - low_ms > 1:
            middle_ms = (low_ms + high_ms) // 2
            if self._offset_ms(middle_ms) == offset_ms:
                high_ms = middle_ms
            else:
                low_ms = middle_ms
        return high_ms

    def _offset_ms(self, time_ms: int) -> int:
        offset = (EPOCH + time_ms * _MS).astimezone(self._zone).utcoffset()
        return 0 if offset is None else offset // _MS


def parse_cron(expression: str, zone: tzinfo) -> TimeOfDayCron | RealTimeCron:
    """Raises CronSimError or ValueError with what is wrong."""
    CronSim(expression, EPOCH)
    fields = expression.split()
    if len(fields) == 5 and not fields[0].startswith("*") and not fields[1].startswith("*"):
        return TimeOfDayCron(expression, zone)
    return RealTimeCron(expression, zone)
