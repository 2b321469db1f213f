"""Whether readers see what is not committed."""

from quiver.model.errors import InvalidRequest

READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


def is_committed(isolation: object) -> bool:
    """The isolation that the user chose. Raises InvalidRequest for anything else."""
    if isolation not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise InvalidRequest(problem=f"isolation {isolation!r} is not one of {READ_COMMITTED}, {READ_UNCOMMITTED}")
    return isolation == READ_COMMITTED
