"""What a consumer of a queue group asks for."""

from collections.abc import Sequence

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.limits import LONGEST_WAIT_MS, MESSAGES_AT_ONCE, MIB
from quiver.model.position import Position
from quiver.model.priority import Priority
from quiver.model.queue import Ordering

MAX_TOPICS = 1_000
MAX_VISIBILITY_MS = 7 * 86_400_000
_MAX_CONSUMER_LENGTH = 240


class ReceiveRequest(msgspec.Struct, frozen=True):
    topic_ids: Sequence[int]
    group: str
    consumer: str
    """Whom the group's max_unacked is counted for."""
    max_messages: int = 10
    max_bytes: int = 8 * MIB
    wait_ms: int = 0
    visibility_ms: int | None = None
    """How long the lease lasts; None: as the group is set."""
    ordering: Ordering | None = None
    """Fixed at the group's first use."""
    priority: Priority | None = None
    """This level only."""
    start: Position | None = None
    """Where a group begins that has no position yet; None: earliest."""

    def check(self) -> None:
        if not 1 <= len(self.topic_ids) <= MAX_TOPICS:
            raise InvalidRequest(problem=f"a receive names 1 to {MAX_TOPICS} topics, not {len(self.topic_ids)}")
        if not 1 <= self.max_messages <= MESSAGES_AT_ONCE:
            raise InvalidRequest(problem=f"max_messages {self.max_messages} is not between 1 and {MESSAGES_AT_ONCE}")
        if not 0 <= self.wait_ms <= LONGEST_WAIT_MS:
            raise InvalidRequest(problem=f"a wait of {self.wait_ms} ms is not between 0 and 5 minutes")
        if self.visibility_ms is not None and not 1 <= self.visibility_ms <= MAX_VISIBILITY_MS:
            raise InvalidRequest(problem=f"a visibility of {self.visibility_ms} ms is not between 1 ms and 7 days")
        if not 1 <= len(self.consumer) <= _MAX_CONSUMER_LENGTH:
            raise InvalidRequest(problem=f"a consumer's name has 1 to {_MAX_CONSUMER_LENGTH} characters")
