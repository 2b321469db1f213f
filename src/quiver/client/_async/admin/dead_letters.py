"""Dead letters: `q.dead_letters`."""

from collections import defaultdict
from collections.abc import Callable
from typing import Unpack

import msgspec

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection, unexpected
from quiver.client.admin.dead_letters import (
    DeadLetterOptions,
    DeadLetterPage,
    DeadLetterRef,
    TakenDeadLetters,
    cursor_text,
    dead_letter_filter,
    id_texts,
)
from quiver.model.dead_letter import DeadLetter, DeadLetterCursor, DeadLetterFilter, parse_dead_letter_cursor
from quiver.model.errors import DeadLetterNotFound
from quiver.model.names import check_name
from quiver.protocol import dead_letter_messages as messages
from quiver.structures.interval_set import IntervalSet

_Request = Callable[
    [DeadLetterFilter, int | None, DeadLetterCursor | None], messages.RedriveDeadLetters | messages.PurgeDeadLetters
]

_SLICE = 5000
"""Dead letters per request: a long redrive is many short requests."""
_IDS_KEPT = 1000


class AsyncDeadLetters:
    def __init__(self, broker: AsyncReconnectingConnection) -> None:
        self._broker = broker

    async def list(
        self,
        topic: str,
        *,
        limit: int = 1000,
        skip: int = 0,
        after: str | None = None,
        newest_first: bool = False,
        **options: Unpack[DeadLetterOptions],
    ) -> DeadLetterPage:
        """A page of the dead letters of a topic, oldest first; empty for a topic without any.

        Filters: ids, partition, group, reason, key, contains, from_time, to_time. A page may be shorter than
        `limit`; pass its `next` as `after` to get the next page.
        """
        request = messages.ListDeadLetters(
            check_name(topic),
            dead_letter_filter(options, self._broker.clock.now_ms()),
            limit,
            skip,
            None if after is None else parse_dead_letter_cursor(after),
            newest_first,
        )
        answer = (await self._broker.call(request)).answer
        if not isinstance(answer, messages.DeadLetters):
            raise unexpected(answer)
        return DeadLetterPage(answer.dead_letters, answer.total, cursor_text(answer.next))

    async def get(self, topic: str, id: DeadLetterRef) -> DeadLetter:
        """One dead letter. Raises DeadLetterNotFound."""
        for dead_letter in await self.list(topic, ids=[id]):
            return dead_letter
        raise DeadLetterNotFound(id=str(id), topic=topic)

    async def redrive(
        self,
        topic: str,
        *,
        to: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        **options: Unpack[DeadLetterOptions],
    ) -> TakenDeadLetters:
        """Sends dead letters back to the topic and partition they came from, or to another topic: each one once.

        Without filters (see `list`) it redrives all current dead letters; with `limit` the oldest of them.
        """
        if to is not None:
            check_name(to)

        name = check_name(topic)
        return await self._take(
            lambda chosen, count, after: messages.RedriveDeadLetters(name, chosen, count, to, dry_run, after),
            options,
            limit,
        )

    async def purge(
        self, topic: str, *, limit: int | None = None, dry_run: bool = False, **options: Unpack[DeadLetterOptions]
    ) -> TakenDeadLetters:
        """Removes dead letters permanently: all current ones, or those that match filters (see `list`)."""
        name = check_name(topic)
        return await self._take(
            lambda chosen, count, after: messages.PurgeDeadLetters(name, chosen, count, dry_run, after),
            options,
            limit,
        )

    async def removed(self, topic: str) -> dict[int, IntervalSet]:
        """Offsets that are no longer dead letters because they were redriven or purged, by partition.

        For readers of the log of the dead-letter topic: only offsets that are still in it.
        """
        name, start = check_name(topic), (0, 0)
        found: defaultdict[int, IntervalSet] = defaultdict(IntervalSet)
        while True:
            answer = (await self._broker.call(messages.ListRemovedDeadLetters(name, start))).answer
            if not isinstance(answer, messages.RemovedDeadLetters):
                raise unexpected(answer)
            for partition, first, end in answer.runs:
                found[partition].add(first, end)
            if answer.next is None:
                return dict(found)
            start = answer.next

    async def _take(self, request: _Request, options: DeadLetterOptions, limit: int | None) -> TakenDeadLetters:
        """Slice by slice. Messages that are dead-lettered meanwhile are left out: a message that keeps failing would
        make it endless."""
        chosen = dead_letter_filter(options, self._broker.clock.now_ms())
        taken = TakenDeadLetters(0, [], [])
        after: DeadLetterCursor | None = None
        while True:
            left = None if limit is None else limit - taken.dead_letter_count
            count = left if chosen.ids is not None else _SLICE if left is None else min(left, _SLICE)
            # A repeated request with a limit could take more than the limit.
            answer = (await self._broker.call(request(chosen, count, after), repeatable=limit is None)).answer
            if not isinstance(answer, messages.TakenDeadLetters):
                raise unexpected(answer)
            taken = TakenDeadLetters(
                taken.dead_letter_count + answer.count,
                [*taken.ids, *id_texts(answer.ids)][:_IDS_KEPT],
                id_texts(answer.missing),
            )
            if answer.next is None or taken.dead_letter_count == limit:
                return taken
            if after is None and (chosen.to_time_ms is None or chosen.to_time_ms > answer.at_ms):
                chosen = msgspec.structs.replace(chosen, to_time_ms=answer.at_ms)
            after = answer.next
