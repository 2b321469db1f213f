"""Pages of delayed messages."""

from collections.abc import Iterable

from quiver.model.schedule import DelayedMessage


class DelayedList(list[DelayedMessage]):
    """A page, in order of time. `total` is how many messages are pending in all."""

    def __init__(self, messages: Iterable[DelayedMessage], total: int) -> None:
        super().__init__(messages)
        self.total = total
