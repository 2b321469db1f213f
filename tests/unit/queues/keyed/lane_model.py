"""Ordered lanes the slow way: one record a message, every question answered by looking at all of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, takewhile

from quiver.queues.state.port import LeaseTerms

UNREAD, WAITING, LEASED, EXPIRED, RETURNED, SETTLED = "unread", "waiting", "leased", "expired", "returned", "settled"
DELIVERED = (LEASED, EXPIRED, RETURNED)
ERROR_EXPIRED = "the lease expired"


@dataclass
class Message:
    offset: int
    key: bytes | None
    level: int
    state: str = UNREAD
    attempts: int = 0
    """Before the delivery that is going on."""
    lease: int = 0
    consumer: str = ""
    deadline_ms: int = 0
    due_ms: int = 0
    first_ms: int = 0
    error: str = ""
    is_counted: bool = False
    """Its expiry was counted."""
    woken_ms: int | None = None
    """When somebody first saw that it can be had again."""

    @property
    def time_ms(self) -> int:
        return self.deadline_ms if self.state == EXPIRED else self.due_ms


@dataclass
class Outcome:
    refused: dict[int, str] = field(default_factory=dict)
    dead: list[tuple[int, int, int, str, str]] = field(default_factory=list)
    """Offset, level, attempts, reason, error."""


class LaneModel:
    def __init__(self) -> None:
        self.log: dict[int, Message] = {}
        self.end = 0
        self.position = 0

    def append(self, keys: Iterable[bytes | None], level: int) -> None:
        for key in keys:
            self.log[self.end] = Message(self.end, key, level)
            self.end += 1

    def skip(self, count: int) -> None:
        """A hole in the log."""
        self.end += count

    def feed(self, position: int) -> None:
        for message in self.of(UNREAD):
            if message.offset < position:
                message.state = WAITING
        self.position = max(self.position, position)

    def of(self, *states: str) -> list[Message]:
        return [message for message in self.log.values() if message.state in states]

    def lanes(self) -> Iterator[list[Message]]:
        """Unsettled messages that were fed, lane by lane."""
        live = self.of(WAITING, *DELIVERED)
        keyed = sorted((m for m in live if m.key is not None), key=lambda m: (m.key or b"", m.offset))
        for _, lane in groupby(keyed, key=lambda m: m.key):
            yield list(lane)
        for message in live:
            if message.key is None:
                yield [message]

    def offered(self, now_ms: int) -> Iterator[tuple[int, int, int, list[Message]]]:
        """What each lane could give: sorted as it is given."""
        for lane in self.lanes():
            head = lane[0]
            if head.state == WAITING:
                run = list(takewhile(lambda m, head=head: m.level == head.level, lane))
                yield 1, head.offset, 0, run
            elif head.state in (RETURNED, EXPIRED) and head.time_ms <= now_ms:
                head.woken_ms = now_ms if head.woken_ms is None else head.woken_ms
                run = list(takewhile(lambda m, head=head: self._goes_with(m, head), lane))
                yield 0, head.time_ms, head.offset, run

    def _goes_with(self, message: Message, head: Message) -> bool:
        """Of those behind, whatever was due when the first one was looked at."""
        if message is head:
            return True
        if message.level != head.level or message.state not in (RETURNED, EXPIRED):
            return False
        return message.state == EXPIRED or message.due_ms <= (head.woken_ms or 0)

    def available(self, now_ms: int) -> list[int]:
        found = [0] * 5
        for *_, run in self.offered(now_ms):
            found[run[0].level] += len(run)
        return found

    def take(
        self,
        level: int,
        count: int,
        terms: LeaseTerms,
        now_ms: int,
        key: bytes | None = None,
        max_keys: int | None = None,
    ) -> list[tuple[int, int, int, str]]:
        """Offset, attempt, first delivery, error."""
        again: list[Message] = []
        offers = sorted((one for one in self.offered(now_ms) if one[3][0].level == level), key=lambda one: one[:3])
        if key is not None:
            offers = [one for one in offers if one[3][0].key == key]
        if max_keys is not None:
            offers = offers[:max_keys]
        for run in (run for kind, *_, run in offers if not kind):
            again += (part := run[: count - len(again)])
            if part:
                self._let_go_behind(part[-1])
        waiting, count = [run for kind, *_, run in offers if kind], count - len(again)
        if key is None and max_keys is None and sum(run[0].key is not None for run in waiting) >= 2 * count:
            fresh = sorted((m for run in waiting for m in run), key=lambda m: m.offset)[:count]
        else:
            fresh = [m for run in waiting for m in run][:count]
        taken = again + sorted(fresh, key=lambda m: m.offset)
        for message in taken:
            message.first_ms = message.first_ms if message.attempts else now_ms
            message.state, message.lease, message.consumer = LEASED, terms.lease, terms.consumer
            message.deadline_ms, message.due_ms, message.is_counted = terms.deadline_ms, 0, False
            message.woken_ms = None
        return [(m.offset, m.attempts + 1, m.first_ms, m.error) for m in taken]

    def _let_go_behind(self, last: Message) -> None:
        for message in self._lane(last):
            if message.offset > last.offset and message.state == EXPIRED:
                message.state, message.lease = RETURNED, 0

    def _lane(self, message: Message) -> list[Message]:
        return [message] if message.key is None else next(lane for lane in self.lanes() if message in lane)

    def _claim(self, offset: int, lease: int) -> Message | None:
        message = self.log.get(offset)
        if message is None or message.lease != lease or message.state not in (LEASED, EXPIRED):
            return None
        return message

    def _resume(self, message: Message, lease: int) -> None:
        for each in self._lane(message):
            if each.state == EXPIRED and each.lease == lease:
                each.state = LEASED
                each.attempts -= each.is_counted
                each.is_counted, each.woken_ms = False, None

    def _in_turn(self, lease: int, offsets: Iterable[int], outcome: Outcome) -> Iterator[Message]:
        for offset in sorted(set(offsets)):
            message = self._claim(offset, lease)
            if message is None:
                outcome.refused[offset] = "lease_lost"
            elif self._lane(message)[0] is not message:
                outcome.refused[offset] = "settle_in_order"
            else:
                self._resume(message, lease)
                yield message

    def ack(self, lease: int, offsets: Iterable[int]) -> Outcome:
        outcome = Outcome()
        for message in self._in_turn(lease, offsets, outcome):
            message.state = SETTLED
        return outcome

    def reject(self, lease: int, offsets: Iterable[int], reason: str) -> Outcome:
        outcome = Outcome()
        for message in self._in_turn(lease, offsets, outcome):
            message.state = SETTLED
            outcome.dead.append((message.offset, message.level, message.attempts + 1, "rejected", reason))
        return outcome

    def drop(self, lease: int, offsets: Iterable[int]) -> Outcome:
        outcome = Outcome()
        for offset in sorted(set(offsets)):
            message = self._claim(offset, lease)
            if message is not None:
                self._resume(message, lease)
                message.state = SETTLED
                outcome.dead.append((offset, message.level, message.attempts, "expired", message.error))
        return outcome

    def extend(self, lease: int, offsets: Iterable[int], deadline_ms: int) -> Outcome:
        outcome = Outcome()
        for offset in sorted(set(offsets)):
            message = self._claim(offset, lease)
            if message is None:
                outcome.refused[offset] = "lease_lost"
                continue
            self._resume(message, lease)
            for each in self._lane(message):
                if each.state == LEASED:
                    each.deadline_ms = deadline_ms
        return outcome

    def nack(
        self,
        lease: int,
        offsets: Iterable[int],
        *,
        now_ms: int,
        delay_ms: int | None,
        is_counted: bool,
        error: str,
        max_attempts: int,
        backoff_ms: int,
    ) -> Outcome:
        outcome = Outcome()
        given_back: set[int] = set()
        for offset in sorted(set(offsets)):
            message = self._claim(offset, lease)
            if message is None:
                if offset not in given_back:
                    outcome.refused[offset] = "lease_lost"
                continue
            self._resume(message, lease)
            for each in self._lane(message):
                if each.state == LEASED and each.offset > offset:
                    each.state, each.lease, each.due_ms = RETURNED, 0, 0
                    given_back.add(each.offset)
            attempts = message.attempts + is_counted
            if is_counted and attempts >= max_attempts:
                message.state = SETTLED
                died = (offset, message.level, attempts, "max_attempts", error or message.error)
                outcome.dead.append(died)
                continue
            pause = delay_ms if delay_ms is not None else min(backoff_ms * 2 ** max(0, attempts - 1), 60_000)
            message.state, message.lease, message.attempts = RETURNED, 0, attempts
            message.due_ms, message.error = now_ms + pause, error or message.error
        return outcome

    def expire(self, now_ms: int, max_attempts: int | None) -> Outcome:
        outcome = Outcome()
        for lane in list(self.lanes()):
            if lane[0].state == LEASED and lane[0].deadline_ms <= now_ms:
                self._end(lane, outcome, max_attempts)
        return outcome

    def end_leases(self, consumer: str) -> None:
        for lane in list(self.lanes()):
            if lane[0].state == LEASED and lane[0].consumer == consumer:
                for message in lane:
                    if message.state == LEASED:
                        message.deadline_ms = 0
                self._end(lane, Outcome(), None)

    def _end(self, lane: list[Message], outcome: Outcome, max_attempts: int | None) -> None:
        for message in lane:
            if message.state == LEASED:
                message.state = EXPIRED
        head = lane[0]
        head.attempts += 1
        head.error = head.error or ERROR_EXPIRED
        head.is_counted = True
        if max_attempts is not None and head.attempts >= max_attempts:
            head.state = SETTLED
            outcome.dead.append((head.offset, head.level, head.attempts, "max_attempts", head.error))

    def settle_below(self, offset: int) -> int:
        gone = [m for m in self.log.values() if m.offset < offset and m.state in (WAITING, *DELIVERED)]
        for message in self.log.values():
            if message.offset < offset:
                message.state = SETTLED
        self.position = max(self.position, offset)
        return len(gone)

    def rewind(self, offset: int) -> None:
        for message in list(self.log.values()):
            state = SETTLED if message.offset < offset else UNREAD
            self.log[message.offset] = Message(message.offset, message.key, message.level, state)
        self.position = offset

    def reopen(self, key: bytes, start: int, settled_below: int, now_ms: int) -> int | None:
        lane = [m for m in self.log.values() if m.key == key]
        if any(m.state == LEASED for m in lane):
            return None
        settled = [m for m in lane if m.state == SETTLED and m.offset >= max(start, settled_below)]
        for message in settled:
            self.log[message.offset] = Message(message.offset, key, message.level, RETURNED, first_ms=now_ms)
        expired = [m for m in lane if m.state == EXPIRED]
        for message in lane if settled else []:
            message.woken_ms = None
        if settled and expired and settled[0].offset < expired[0].offset:
            for message in expired:
                message.state, message.lease, message.due_ms, message.is_counted = RETURNED, 0, 0, False
        return len(settled)

    def restart(self, position: int) -> None:
        """What was read and not delivered is read again."""
        for message in self.of(WAITING):
            message.state = UNREAD
        for message in self.log.values():
            message.woken_ms = None
        self.position = position

    # questions

    def floor(self) -> int:
        """The first message that was never delivered."""
        return min((m.offset for m in self.of(UNREAD, WAITING)), default=self.end)

    def held_by(self) -> dict[str, int]:
        held: dict[str, int] = {}
        for message in self.of(LEASED):
            held[message.consumer] = held.get(message.consumer, 0) + 1
        return held

    def blocked_keys(self, now_ms: int) -> dict[bytes, int]:
        free = {run[0].key for *_, run in self.offered(now_ms)}
        found: dict[bytes, int] = {}
        for lane in self.lanes():
            first = sum(message.state == LEASED for message in lane) or 1
            if lane[0].key is not None and lane[0].key not in free and len(lane) > first:
                found[lane[0].key] = len(lane) - first
        return found
