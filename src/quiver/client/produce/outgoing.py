"""Turns what users pass into a message that can be gathered."""

from typing import Any

from quiver.client.produce.chunk import Outgoing
from quiver.client.produce.options import SendOptions
from quiver.client.produce.payload import header_bytes, id_bytes, key_bytes, value_bytes
from quiver.client.produce.route import PLAIN_ROUTE, Route
from quiver.model.errors import InvalidRequest
from quiver.model.priority import parse_priority
from quiver.model.times import parse_duration_ms, parse_time_ms

_NAMES = frozenset(SendOptions.__annotations__)


def outgoing(value: object, key: object, options: SendOptions, now_ms: int) -> tuple[Outgoing, Route]:
    """The message and its route. Raises InvalidRequest for options that are not valid."""
    if not options:
        return Outgoing(value_bytes(value), key_bytes(key), None, None, None), PLAIN_ROUTE
    check_options(options)
    timestamp, due_ms = options.get("timestamp"), deliver_at_ms(options, now_ms)
    message = Outgoing(
        value_bytes(value),
        key_bytes(key),
        header_bytes(options.get("headers")),
        None if timestamp is None else parse_time_ms(timestamp, "timestamp"),
        expiry_ms(options.get("ttl"), max(now_ms, due_ms or 0)),
        due_ms,
        id_bytes(options.get("id")),
    )
    return message, route_of(options)


def check_options(options: SendOptions) -> None:
    for name in options:
        if name not in _NAMES:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(sorted(_NAMES))}")


def route_of(options: SendOptions) -> Route:
    partition = options.get("partition")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int) or partition < 0):
        raise InvalidRequest(problem=f"partition {partition!r} must be a whole number, 0 or more")
    is_delayed = options.get("delay") is not None or options.get("deliver_at") is not None
    return Route(int(parse_priority(options.get("priority"))), partition, is_delayed)


def deliver_at_ms(options: SendOptions, now_ms: int) -> int | None:
    """When the message is due; None: immediately. The broker decides whether that time has passed."""
    delay, deliver_at = options.get("delay"), options.get("deliver_at")
    if delay is not None:
        if deliver_at is not None:
            raise InvalidRequest(problem="give delay or deliver_at, not both")
        return now_ms + parse_duration_ms(delay, "delay")
    return None if deliver_at is None else parse_time_ms(deliver_at, "deliver_at")


def expiry_ms(ttl: Any, arrival_ms: int) -> int | None:
    """The time to live begins when the message enters the topic."""
    return None if ttl is None else arrival_ms + parse_duration_ms(ttl, "ttl")
