"""What messages must have in common to travel together."""

from typing import NamedTuple

from quiver.model.priority import Priority


class Route(NamedTuple):
    priority: int
    partition: int | None
    """The one the user named; None: by the key, by the id, or any."""
    delayed: bool = False
    """Delayed messages have frames of their own."""


PLAIN_ROUTE = Route(Priority.NORMAL, None)
