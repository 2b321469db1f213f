"""Due messages on their way: read from the schedule log, put together by what must not share a frame. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quiver.delays.partition.schedule_log import ScheduledRow
from quiver.delays.pending import Delayed
from quiver.model.limits import MIB
from quiver.model.message import NewMessage

MOVE_MESSAGES = 1000
MOVE_BYTES = 4 * MIB


class DueMessage(NamedTuple):
    delayed: Delayed
    row: ScheduledRow

    @property
    def due_ms(self) -> int:
        """When it should arrive: at its time, and if that was past already, when it was scheduled."""
        return max(self.delayed.deliver_at_ms, self.row.scheduled_ms)

    @property
    def is_expired(self) -> bool:
        """Whether it expires before it is due."""
        expires_at_ms = self.row.expires_at_ms
        return expires_at_ms is not None and expires_at_ms <= self.due_ms

    def arriving(self, now_ms: int) -> NewMessage:
        """The message as it enters the topic; its time to live counts from then."""
        return self.row.message(max(0, now_ms - self.due_ms))


class Departure(NamedTuple):
    """What becomes of messages that are due."""

    parts: list[list[DueMessage]]
    """Each can be one frame: one priority, one schema, a bounded size."""
    expired: list[Delayed]
    lost: list[Delayed]
    """The schedule log does not have them any more."""

    @property
    def moved(self) -> list[list[Delayed]]:
        return [[due.delayed for due in part] for part in self.parts]


def departure(messages: Sequence[Delayed], rows: Mapping[int, ScheduledRow]) -> Departure:
    """Sorts messages out; `rows` are by place. The order stays within each priority and schema."""
    result = Departure([], [], [])
    open_parts: dict[tuple[int, int], tuple[list[DueMessage], int]] = {}
    for delayed in messages:
        row = rows.get(delayed.place)
        if row is None:
            result.lost.append(delayed)
            continue
        due = DueMessage(delayed, row)
        if due.is_expired:
            result.expired.append(delayed)
            continue
        kind = (delayed.priority, row.schema_id)
        part, size = open_parts.get(kind, ([], 0))
        if not part or len(part) >= MOVE_MESSAGES or size + row.size > MOVE_BYTES:
            part, size = [], 0
            result.parts.append(part)
        part.append(due)
        open_parts[kind] = (part, size + row.size)
    return result
