"""An unordered queue group the slow way: one record a message, every question answered by looking at all of them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

UNREAD, READY, LEASED, EXPIRED, WAITING, SETTLED = "unread", "ready", "leased", "expired", "waiting", "settled"
LEVELS = 5


@dataclass
class Message:
    level: int
    state: str = UNREAD
    attempts: int = 0
    first_ms: int = 0
    time_ms: int = 0
    lease: int = 0
    consumer: str = ""
    error: str = ""


@dataclass
class Outcome:
    refused: set[int] = field(default_factory=set)
    dead: set[tuple[int, int, str, str]] = field(default_factory=set)
    """Offset, attempts, reason, error."""
    until_ms: int | None = None


class UnorderedModel:
    def __init__(self, *, in_offset_order: bool) -> None:
        self.in_offset_order = in_offset_order
        self.log: dict[int, Message] = {}
        """By offset; there are holes."""
        self.positions = [0] * LEVELS

    def queue_of_level(self, message: Message) -> int:
        return 0 if self.in_offset_order else message.level

    def of_line(self, ready_queue: int, *states: str) -> list[tuple[int, Message]]:
        return [
            (offset, message)
            for offset, message in sorted(self.log.items())
            if self.queue_of_level(message) == ready_queue and message.state in states
        ]

    def feed(self, ready_queue: int, position: int) -> list[tuple[int, int]]:
        """What was read: offset and level."""
        read = [(offset, message) for offset, message in self.of_line(ready_queue, UNREAD) if offset < position]
        for _, message in read:
            message.state = READY
        self.positions[ready_queue] = position
        return [(offset, message.level) for offset, message in read]

    def due(self, ready_queue: int, now_ms: int) -> list[tuple[int, Message]]:
        waiting = self.of_line(ready_queue, EXPIRED, WAITING)
        due = [pair for pair in waiting if pair[1].state == EXPIRED or pair[1].time_ms <= now_ms]
        return sorted(due, key=lambda pair: (0 if self.in_offset_order else pair[1].time_ms, pair[0]))

    def available(self, now_ms: int) -> list[int]:
        return [
            len(self.due(ready_queue, now_ms)) + len(self.of_line(ready_queue, READY))
            for ready_queue in range(LEVELS)
        ]

    def take(
        self, ready_queue: int, count: int, *, lease: int, consumer: str, now_ms: int, deadline_ms: int
    ) -> list[tuple[int, int, int, int, str]]:
        taken = (self.due(ready_queue, now_ms) + self.of_line(ready_queue, READY))[:count]
        for _, message in taken:
            if message.state == EXPIRED:
                message.error = message.error or "the lease expired"
            if message.attempts == 0:
                message.first_ms = now_ms
            message.attempts += 1
            message.state, message.time_ms, message.lease, message.consumer = LEASED, deadline_ms, lease, consumer
        return [(offset, m.level, m.attempts, m.first_ms, m.error) for offset, m in taken]

    def claim(self, lease: int, offsets: Iterable[int]) -> tuple[list[tuple[int, Message]], Outcome]:
        found, outcome = [], Outcome()
        for offset in offsets:
            message = self.log.get(offset)
            if message is None or message.lease != lease or message.state not in (LEASED, EXPIRED):
                outcome.refused.add(offset)
            else:
                found.append((offset, message))
        return found, outcome

    def ack(self, lease: int, offsets: Iterable[int]) -> Outcome:
        found, outcome = self.claim(lease, offsets)
        for _, message in found:
            message.state = SETTLED
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
        backoff_max_ms: int,
        jitter: float,
    ) -> Outcome:
        found, outcome = self.claim(lease, offsets)
        dues = []
        for offset, message in found:
            if is_counted and message.attempts >= max_attempts:
                message.state = SETTLED
                outcome.dead.add((offset, message.attempts, "max_attempts", error or message.error))
                continue
            message.attempts -= 0 if is_counted else 1
            backoff = min(backoff_ms * 2 ** max(message.attempts - 1, 0), backoff_max_ms)
            message.time_ms = now_ms + (round(backoff * jitter) if delay_ms is None else delay_ms)
            message.state, message.error = WAITING, error or message.error
            dues.append(message.time_ms)
        outcome.until_ms = min(dues, default=None)
        return outcome

    def reject(self, lease: int, offsets: Iterable[int], reason: str) -> Outcome:
        found, outcome = self.claim(lease, offsets)
        for offset, message in found:
            message.state = SETTLED
            outcome.dead.add((offset, message.attempts, "rejected", reason))
        return outcome

    def drop(self, lease: int, offsets: Iterable[int], reason: str) -> Outcome:
        found, outcome = self.claim(lease, offsets)
        for offset, message in found:
            message.state = SETTLED
            outcome.dead.add((offset, message.attempts - 1, reason, message.error))
        return outcome

    def extend(self, lease: int, offsets: Iterable[int], deadline_ms: int) -> Outcome:
        found, outcome = self.claim(lease, offsets)
        for _, message in found:
            message.state, message.time_ms = LEASED, deadline_ms
        outcome.until_ms = deadline_ms if found else None
        return outcome

    def end_leases(self, consumer: str) -> None:
        for message in self.log.values():
            if message.state == LEASED and message.consumer == consumer:
                message.state, message.time_ms = EXPIRED, 0

    def expire(self, now_ms: int, max_attempts: int, *, may_die: bool) -> Outcome:
        outcome = Outcome()
        for offset, message in self.log.items():
            if message.state == LEASED and message.time_ms <= now_ms:
                message.state = EXPIRED
                if may_die and message.attempts >= max_attempts:
                    message.state = SETTLED
                    error = message.error or "the lease expired"
                    outcome.dead.add((offset, message.attempts, "max_attempts", error))
        return outcome

    def settle_below(self, limit: int) -> int:
        gone = 0
        for offset, message in self.log.items():
            if offset < limit:
                gone += message.state not in (UNREAD, SETTLED)
                message.state = SETTLED
        self.positions = [max(position, limit) for position in self.positions]
        return gone

    def rewind(self, limit: int) -> None:
        for offset, message in self.log.items():
            self.log[offset] = Message(message.level, SETTLED if offset < limit else UNREAD)
        self.positions = [limit] * LEVELS

    def restart(self) -> None:
        """What was read ahead is read again; that a lease has expired is found out again."""
        for message in self.log.values():
            if message.state == READY:
                message.state = UNREAD
            elif message.state == EXPIRED:
                message.state = LEASED

    def counts(self) -> tuple[int, int, int]:
        def count(*states: str) -> int:
            return sum(message.state in states for message in self.log.values())

        return count(LEASED), count(EXPIRED, WAITING), count(READY)

    def held_by(self) -> dict[str, int]:
        held: dict[str, int] = {}
        for message in self.log.values():
            if message.state == LEASED:
                held[message.consumer] = held.get(message.consumer, 0) + 1
        return held
