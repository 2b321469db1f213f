"""Messages that a search has found."""

from typing import Any

import msgspec

from quiver.client.json_value import decode_json
from quiver.model.errors import InvalidRequest
from quiver.model.priority import NAMES
from quiver.protocol.search_messages import FoundRow


class FoundMessage(msgspec.Struct, frozen=True):
    """A message that fits. A value of None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """The message's own time, epoch milliseconds."""
    append_time: int
    """When the broker stored it, epoch milliseconds."""
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]
    priority: str

    def json(self, type: Any = Any) -> Any:
        """The value decoded from JSON, as a `type` if that is given. Raises InvalidRequest if it does not fit."""
        where = f"{self.topic}-{self.partition} offset {self.offset}"
        if self.value is None:
            raise InvalidRequest(problem=f"the message at {where} is a tombstone: it has no value to read as JSON")
        try:
            return decode_json(self.value, type)
        except ValueError as error:
            raise InvalidRequest(problem=f"the message at {where} is not the JSON that is wanted: {error}") from error


def found_message(topic: str, row: FoundRow) -> FoundMessage:
    return FoundMessage(
        topic=topic,
        partition=row.partition,
        offset=row.offset,
        timestamp=row.timestamp_ms,
        append_time=row.append_time_ms,
        key=row.key,
        value=row.value,
        headers=row.headers,
        priority=NAMES[row.priority],
    )
