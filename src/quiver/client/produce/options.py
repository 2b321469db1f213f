"""How a producer batches, waits and retries."""

from collections.abc import Mapping
from typing import NamedTuple, TypedDict

import msgspec

from quiver.client.size_option import size_option
from quiver.model.errors import InvalidRequest
from quiver.model.limits import KIB, MIB
from quiver.model.numbers import Size
from quiver.model.priority import PriorityLevel
from quiver.model.times import Duration, Time, parse_duration_ms
from quiver.protocol.messages import ACKS_ALL, ACKS_LEADER, ACKS_NONE, CODECS

_ACKS = {"none": ACKS_NONE, "leader": ACKS_LEADER, "all": ACKS_ALL}
IN_FLIGHT_PER_PARTITION = 16
"""The broker recognises repeats among the last 16 frames of a producer."""


DELAYED_BATCH_BYTES = 48 * KIB
DELAYED_BATCH_MESSAGES = 2048
"""Delayed messages are sent in small frames, because they are read one by one when they are due."""


class BatchLimits(NamedTuple):
    """The limits of a batch."""

    size_bytes: int
    messages: int


GATHERED_BYTES_PER_PARTITION = 32 * KIB
"""Larger frames do not make keyed messages faster."""


MOST_GATHERED = 1_000_000


class SendOptions(TypedDict, total=False):
    """The options of a message besides its value and key."""

    headers: Mapping[str, bytes | str] | None
    timestamp: Time | None
    """RFC 3339, epoch milliseconds or a datetime; the time of sending if absent."""
    partition: int | None
    priority: PriorityLevel | None
    ttl: Duration | None
    delay: Duration | None
    """The message enters the topic after this time."""
    id: bytes | str | None
    """A second message with the same id within the topic's `dedup_window` is not stored."""
    deliver_at: Time | None
    """The message enters the topic at that time: RFC 3339, epoch milliseconds or a datetime."""


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    linger_seconds: float = 0.005
    batch_bytes: int = MIB
    batch_messages: int = 65_536
    max_buffer_bytes: int = 64 * MIB
    timeout_seconds: float = 30.0
    """How long a call waits for room in the buffer, or for a first connection."""
    delivery_seconds: float = 120.0
    """How long a message is retried before it fails."""
    request_seconds: float = 30.0
    """A connection without a response for this long is dropped."""
    acks: int = ACKS_ALL
    compression: str = "none"
    idempotent: bool = True
    is_transactional: bool = False
    """The frames belong to transactions, which set the identity."""

    def batch_limits(self, *, delayed: bool) -> BatchLimits:
        if delayed:
            return BatchLimits(
                min(self.batch_bytes, DELAYED_BATCH_BYTES), min(self.batch_messages, DELAYED_BATCH_MESSAGES)
            )
        return BatchLimits(self.batch_bytes, self.batch_messages)

    def gathering_limits(self, partitions: int) -> BatchLimits:
        """For messages that are split by key together: more than one batch if there are many partitions, so that each
        gets a frame of a good size."""
        wanted = min(partitions * GATHERED_BYTES_PER_PARTITION, self.max_buffer_bytes // 2)
        return BatchLimits(max(self.batch_bytes, wanted), max(self.batch_messages, MOST_GATHERED))


def producer_config(
    *,
    linger: object = "5ms",
    batch_bytes: Size = MIB,
    batch_messages: int = 65_536,
    max_buffer_bytes: Size = 64 * MIB,
    timeout: object = 30,
    delivery_timeout: object = 120,
    acks: str = "all",
    compression: str = "none",
    idempotent: bool | None = None,
) -> ProducerConfig:
    """Checks the options of a user."""
    check_acks(acks)
    if idempotent and acks != "all":
        raise InvalidRequest(
            problem=f"an idempotent producer needs acks all, not {acks}: what one replica has may get lost with it"
        )
    _check_number("batch_messages", batch_messages, 1, 1_000_000)
    return ProducerConfig(
        linger_seconds=parse_duration_ms(linger, "linger") / 1000,
        batch_bytes=size_option("batch_bytes", batch_bytes, 1, 8 * MIB),
        batch_messages=batch_messages,
        max_buffer_bytes=size_option("max_buffer_bytes", max_buffer_bytes, 64 * KIB, 2**40),
        timeout_seconds=parse_duration_ms(timeout, "timeout") / 1000,
        delivery_seconds=parse_duration_ms(delivery_timeout, "delivery_timeout") / 1000,
        acks=_ACKS[acks],
        compression=_check_compression(compression),
        idempotent=acks == "all" if idempotent is None else idempotent,
    )


def publisher_config(acks: str, delivery_seconds: float) -> ProducerConfig:
    """Of single messages that leave at once."""
    return ProducerConfig(
        linger_seconds=0.0,
        delivery_seconds=delivery_seconds,
        acks=_ACKS[check_acks(acks)],
        idempotent=acks == "all",
    )


def check_acks(acks: str) -> str:
    if acks not in _ACKS:
        raise InvalidRequest(problem=f"acks {acks!r} is not one of {', '.join(_ACKS)}")
    return acks


TRANSACTION_BATCH_BYTES = 256 * KIB
"""Less than for producers, so that the broker writes the first frames while the next ones are built."""
_TRANSACTION_DELIVERY_SECONDS = 120.0
"""The longest time for which a message of a transaction is retried, unless the user sets another."""


def transaction_config(
    timeout_ms: int,
    *,
    batch_bytes: Size = TRANSACTION_BATCH_BYTES,
    compression: str = "none",
    delivery_timeout: object = None,
) -> ProducerConfig:
    """Checks the options that say how messages of transactions are sent."""
    if delivery_timeout is None:
        seconds = min(timeout_ms / 1000, _TRANSACTION_DELIVERY_SECONDS)
    else:
        seconds = parse_duration_ms(delivery_timeout, "delivery_timeout") / 1000
    return ProducerConfig(
        batch_bytes=size_option("batch_bytes", batch_bytes, 1, 8 * MIB),
        compression=_check_compression(compression),
        delivery_seconds=seconds,
        timeout_seconds=seconds,
        is_transactional=True,
    )


def _check_compression(name: str) -> str:
    if name not in CODECS:
        raise InvalidRequest(problem=f"compression {name!r} is not one of {', '.join(CODECS)}")
    return name


def _check_number(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequest(problem=f"{name} {value!r} is not a whole number from {low} to {high}")
