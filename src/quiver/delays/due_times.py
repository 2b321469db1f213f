"""What is due when: all of it in order, and what is near on a timer wheel. Pure."""

from quiver.structures.ordered_pairs import Integers, OrderedPairs, Pair
from quiver.structures.timer_wheel import TimerWheel

_NEAR_MS = 60_000
_AT_LEAST_MS = 30_000
_LOADED_AT_ONCE = 4096


class DueTimes:
    """Numbers of 64 bits, each with the time at which it is due.

    `order` has every pair of time and number. Those below `_loaded` are on the wheel as well, unless they were taken;
    the others are loaded as their time comes near.
    """

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        self.order = OrderedPairs()
        self._wheel = TimerWheel(now_ms)
        self._loaded: Pair = (0, 0)

    def __len__(self) -> int:
        return len(self.order)

    def add(self, times_ms: Integers, numbers: Integers) -> None:
        self.order.extend(times_ms, numbers)
        time_ms, number = self._loaded
        near = (times_ms < time_ms) | ((times_ms == time_ms) & (numbers < number))
        if near.any():
            for at_ms, each in zip(times_ms[near].tolist(), numbers[near].tolist(), strict=True):
                self._wheel.schedule(each, at_ms)

    def remove(self, time_ms: int, number: int) -> bool:
        self._wheel.cancel(number)
        return self.order.remove(time_ms, number)

    def take(self, now_ms: int, limit: int) -> list[int]:
        """What is due, in order of time. It stays in `order` until it is removed, and is not taken again."""
        self._load(now_ms)
        return self._wheel.advance(now_ms, limit)

    def put_back(self, time_ms: int, number: int) -> None:
        """What was taken is due again."""
        self._wheel.schedule(number, time_ms)

    def next_ms(self) -> int | None:
        """When to `take` next; None if there is nothing to wait for."""
        times = [self._wheel.next_due_ms()]
        times += [time_ms - _AT_LEAST_MS for time_ms, _ in self.order.starting_at(*self._loaded, 1)]
        return min((time_ms for time_ms in times if time_ms is not None), default=None)

    def clear(self) -> None:
        self.order.clear()
        self._wheel, self._loaded = TimerWheel(self._began_ms), (0, 0)

    def _load(self, now_ms: int) -> None:
        for time_ms, number in self.order.starting_at(*self._loaded, _LOADED_AT_ONCE):
            if time_ms > now_ms + _NEAR_MS:
                return
            self._wheel.schedule(number, time_ms)
            self._loaded = (time_ms, number + 1)
