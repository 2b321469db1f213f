"""Single messages, for the paths that handle them one by one. The stream path moves frames instead."""

from typing import Literal

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.limits import MESSAGE_ID_BYTES
from quiver.model.priority import Priority

Acks = Literal["none", "leader", "all"]
"""What a publish waits for: nothing, its partition's leader, or all replicas in sync."""


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be published. A value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: dict[str, bytes] | None = None
    timestamp_ms: int | None = None
    partition: int | None = None
    priority: Priority = Priority.NORMAL
    deliver_at_ms: int | None = None
    expires_at_ms: int | None = None
    id: bytes | None = None
    acks: Acks = "all"
    """Whoever asks for `none` does not wait."""


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is in the log."""

    partition: int
    offset: int
    timestamp_ms: int
    append_time_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]
    priority: Priority


def check_message_id(id: bytes) -> None:
    """Raises InvalidRequest for what cannot be a message id."""
    if not 0 < len(id) <= MESSAGE_ID_BYTES:
        raise InvalidRequest(
            problem=f"a message id has 1 to {MESSAGE_ID_BYTES} bytes, not {len(id)}; leave it out for no id"
        )
