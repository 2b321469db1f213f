"""Which node of a cluster readers get messages from."""

from quiver.model.errors import InvalidRequest

LEADER = "leader"
NEAREST = "nearest"


def is_nearest(read_from: object) -> bool:
    """What the user chose. Raises InvalidRequest for anything else."""
    if read_from not in (LEADER, NEAREST):
        raise InvalidRequest(problem=f"read_from {read_from!r} is not one of {LEADER}, {NEAREST}")
    return read_from == NEAREST
