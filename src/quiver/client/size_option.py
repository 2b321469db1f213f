"""A size among the options of a call."""

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import Size, parse_size_bytes


def size_option(name: str, value: Size, low: int, high: int) -> int:
    """Bytes; InvalidRequest names the option."""
    try:
        return parse_size_bytes(value, low, high)
    except ValueError as error:
        raise InvalidRequest(problem=f"{name} {error}") from None
