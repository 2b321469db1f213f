"""How many messages are handed over at once: many to a fast handler, one at a time to a slow one."""

_QUICK_SECONDS = 0.01
_SLOW_SECONDS = 0.05
_MOST = 8192


class Pace:
    """What was handed over cannot be taken back, so it should not take long; and each time costs a little."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 1

    def took(self, seconds: float) -> None:
        """Tells how long the last `count` messages took."""
        if seconds < _QUICK_SECONDS:
            self.count = min(_MOST, self.count * 2)
        elif seconds > _SLOW_SECONDS:
            self.count = max(1, self.count // 4)
