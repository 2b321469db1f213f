"""How many messages a consumer receives ahead. Pure."""

_FIRST = 16
_MOST = 4_000
_LONG_SECONDS = 1.0


class PrefetchWindow:
    """Grows while the consumer runs out of messages although there are more, shrinks when messages wait here for
    long.

    So a fast consumer has enough to do, and a slow one leaves messages to others. A fixed size does not change.
    """

    __slots__ = ("_floor", "is_fixed", "size")

    def __init__(self, *, fixed: int | None, floor: int = 1) -> None:
        """Never below `floor`: the number of jobs at a time."""
        self.is_fixed = fixed is not None
        self._floor = floor
        self.size = max(floor, _FIRST) if fixed is None else fixed

    @property
    def step(self) -> int:
        """The room from which on a request is worth it."""
        return max(1, self.size // 4)

    def grow(self) -> None:
        if not self.is_fixed:
            self.size = max(self.size, min(2 * self.size, _MOST))

    def note_wait(self, seconds: float) -> None:
        """A message was taken this long after it arrived."""
        if seconds > _LONG_SECONDS and not self.is_fixed:
            self.size = max(self._floor, self.size // 2)

    def shrink_to_floor(self) -> None:
        """The consumer has not taken anything for long."""
        if not self.is_fixed:
            self.size = self._floor
