"""What messages must have in common to be in one frame."""

from typing import NamedTuple

from quiver.model.priority import Priority


class Route(NamedTuple):
    priority: int
    partition: int | None
    """The partition that the user chose; None: by the key, by the id, or any."""
    delayed: bool = False
    """Delayed messages have frames of their own."""


PLAIN_ROUTE = Route(Priority.NORMAL, None)
