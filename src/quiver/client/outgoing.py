"""From what users say about a message to one that can be gathered."""

from typing import Any

from quiver.client.chunk import Outgoing, Route
from quiver.client.payload import header_bytes, key_bytes, value_bytes
from quiver.client.producer_options import SendOptions
from quiver.model.errors import InvalidRequest, NotSupported
from quiver.model.priority import Priority, parse_priority
from quiver.model.times import parse_duration_ms, parse_time_ms

PLAIN_ROUTE = Route(Priority.NORMAL, None)
_NAMES = frozenset(SendOptions.__annotations__)


def outgoing(value: object, key: object, options: SendOptions, now_ms: int) -> tuple[Outgoing, Route]:
    """The message and its route; InvalidRequest for what cannot be meant, NotSupported for delays."""
    if not options:
        return Outgoing(value_bytes(value), key_bytes(key), None, None, None), PLAIN_ROUTE
    check_options(options)
    timestamp = options.get("timestamp")
    message = Outgoing(
        value_bytes(value),
        key_bytes(key),
        header_bytes(options.get("headers")),
        None if timestamp is None else parse_time_ms(timestamp, "timestamp"),
        expiry_ms(options.get("ttl"), now_ms),
    )
    return message, route_of(options)


def check_options(options: SendOptions) -> None:
    for name, value in options.items():
        if name not in _NAMES:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(sorted(_NAMES))}")
        if name in ("delay", "deliver_at") and value is not None:
            raise NotSupported(feature=f"{name} (messages that are delivered later)")


def route_of(options: SendOptions) -> Route:
    partition = options.get("partition")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int) or partition < 0):
        raise InvalidRequest(problem=f"partition {partition!r} is not a number from 0")
    return Route(int(parse_priority(options.get("priority"))), partition)


def expiry_ms(ttl: Any, now_ms: int) -> int | None:
    return None if ttl is None else now_ms + parse_duration_ms(ttl, "ttl")
