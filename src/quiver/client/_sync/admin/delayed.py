# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Delayed messages: `q.delayed`."""

from collections.abc import Iterable

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client.admin.delayed_list import DelayedList
from quiver.model.errors import DelayedNotFound, InvalidRequest
from quiver.model.limits import LISTED_AT_ONCE
from quiver.model.names import check_name
from quiver.model.schedule import DelayedMessage, due_ms
from quiver.model.times import Duration, Time
from quiver.protocol import delay_messages as messages


class Delayed:
    def __init__(self, broker: ReconnectingConnection) -> None:
        self._broker = broker

    def list(self, topic: str, *, limit: int = 1000, skip: int = 0) -> DelayedList:
        """The pending messages of a topic in order of time; `total` is how many there are."""
        answer = (self._broker.call(messages.ListDelayed(check_name(topic), limit, skip))).answer
        if not isinstance(answer, messages.DelayedList):
            raise unexpected(answer)
        return DelayedList(answer.messages, answer.total)

    def get(self, topic: str, partition: int | None = None, id: int | None = None) -> DelayedMessage:
        """One message, also shortly after it was delivered or cancelled. Raises DelayedNotFound.

        `get(topic, id=42)` finds the partition itself, if only one has a message with that id.
        """
        number = -1 if partition is None else partition
        answer = (self._broker.call(messages.GetDelayed(check_name(topic), number, _given(id)))).answer
        if not isinstance(answer, messages.Delayed):
            raise unexpected(answer)
        return answer.message

    def cancel(self, topic: str, partition: int | None = None, id: int | None = None) -> None:
        """Cancels a message, so that it is never delivered. Raises DelayedNotFound if it was delivered or cancelled
        before.

        `cancel(topic, id=42)` finds the partition itself, if only one has a message with that id.
        """
        id = _given(id)
        if partition is None:
            partition = (self.get(topic, id=id)).partition
        if id not in self.cancel_many(topic, partition, [id]):
            raise DelayedNotFound(topic=topic, partition=partition, id=id)

    def cancel_many(self, topic: str, partition: int, ids: Iterable[int]) -> set[int]:
        """Cancels many messages of a partition, and returns those that could still be cancelled."""
        wanted, cancelled = list(ids), set[int]()
        for start in range(0, len(wanted), LISTED_AT_ONCE):
            part = wanted[start : start + LISTED_AT_ONCE]
            # Sent again after a lost connection, it would report that there was nothing to cancel.
            request = messages.CancelDelayed(check_name(topic), partition, part)
            answer = (self._broker.call(request, repeatable=False)).answer
            if not isinstance(answer, messages.CancelledDelayed):
                raise unexpected(answer)
            cancelled.update(answer.ids)
        return cancelled

    def reschedule(
        self,
        topic: str,
        partition: int | None = None,
        id: int | None = None,
        *,
        delay: Duration | None = None,
        deliver_at: Time | None = None,
    ) -> None:
        """Makes a message due at another time: `delay` from now (0: now), or at `deliver_at`. Raises DelayedNotFound
        if it was delivered or cancelled before, InvalidRequest if it expires before that time.

        `reschedule(topic, id=42, delay=0)` finds the partition itself, if only one has a message with that id.
        """
        id = _given(id)
        if partition is None:
            partition = (self.get(topic, id=id)).partition
        if id not in self.reschedule_many(topic, partition, [id], delay=delay, deliver_at=deliver_at):
            raise DelayedNotFound(topic=topic, partition=partition, id=id)

    def reschedule_many(
        self,
        topic: str,
        partition: int,
        ids: Iterable[int],
        *,
        delay: Duration | None = None,
        deliver_at: Time | None = None,
    ) -> set[int]:
        """Makes many messages of a partition due at another time; returns those that could still be changed."""
        at_ms = due_ms(delay, deliver_at, self._broker.clock.now_ms())
        wanted, changed = list(ids), set[int]()
        for start in range(0, len(wanted), LISTED_AT_ONCE):
            part = wanted[start : start + LISTED_AT_ONCE]
            answer = (self._broker.call(messages.RescheduleDelayed(check_name(topic), partition, part, at_ms))).answer
            if not isinstance(answer, messages.RescheduledDelayed):
                raise unexpected(answer)
            changed.update(answer.ids)
        return changed


def _given(id: int | None) -> int:
    if id is None:
        raise InvalidRequest(problem="name a message: id=")
    return id
