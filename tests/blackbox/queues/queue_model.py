"""What must hold of every queue group, whatever happens: a model that is told what was sent and what was answered.

It does not predict what the broker does, because time decides when leases end; it says which answers are possible. A
request that a kill has cut off has two possible outcomes, and both are followed until an answer shows which it was.
Times are epoch milliseconds of the machine's clock, which is the broker's too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

MAX_ATTEMPTS = 3
CLOCK_MS = 2
"""Times are rounded on the way."""

Ended = Literal["no", "maybe", "yes"]


@dataclass
class Message:
    """One that was published. A delayed one has no offset until it was seen."""

    number: int
    key: str | None
    priority: str
    partition: int
    offset: int | None
    due_ms: int
    delayed_id: int | None = None
    cancelled: Ended = "no"


@dataclass
class Held:
    """One delivery."""

    serial: int
    """Rises with each delivery of the group."""
    receipt: str
    attempt: int
    earliest_end_ms: int
    latest_end_ms: int
    ended: Ended = "no"
    """By a settlement of ours; that it ran out shows in its times."""

    @property
    def lease(self) -> str:
        return self.receipt.rsplit(":", 1)[1]

    def is_live(self, now_ms: int) -> bool:
        """Surely."""
        return self.ended == "no" and self.earliest_end_ms > now_ms + CLOCK_MS

    def may_live(self, now_ms: int) -> bool:
        return self.ended != "yes" and self.latest_end_ms + CLOCK_MS >= now_ms


@dataclass
class Standing:
    """How a message stands with a group."""

    last: Held | None = None
    settled: Literal["no", "acked", "dead"] = "no"
    may_be: set[str] = field(default_factory=set)
    """acked, dead: what a request without an answer may have done."""
    attempts: tuple[int, int] = (1, 1)
    """The least and the greatest number that the next delivery can have."""
    not_before_ms: int = 0
    receipts: list[str] = field(default_factory=list)

    def may_be_dead(self, now_ms: int) -> bool:
        """Told so, or by the end of its last lease."""
        if self.settled == "dead" or "dead" in self.may_be:
            return True
        return self.attempts[1] > MAX_ATTEMPTS and (self.last is None or not self.last.is_live(now_ms))

    def may_be_settled(self, now_ms: int) -> bool:
        return self.settled != "no" or bool(self.may_be) or self.may_be_dead(now_ms)


class GroupModel:
    def __init__(self, name: str, messages: dict[int, Message], *, is_ordered: bool) -> None:
        self.name = name
        self.is_ordered = is_ordered
        self.standings: dict[int, Standing] = {}
        self.unheard_until_ms = 0
        """Until then leases may be out that a receive took and never answered."""
        self._messages = messages
        self._serial = 0
        self._furthest: dict[tuple[int, str], int] = {}

    def of(self, message: Message) -> Standing:
        return self.standings.setdefault(message.number, Standing())

    def held(self) -> Iterator[tuple[Message, Standing, Held]]:
        """Deliveries whose receipts may be good, in the order of offsets."""
        found = [(self._messages[number], standing) for number, standing in self.standings.items()]
        for message, standing in sorted(found, key=lambda pair: (pair[0].partition, pair[0].offset or 0)):
            if standing.last is not None and standing.settled == "no" and standing.last.ended != "yes":
                yield message, standing, standing.last

    # deliveries

    def delivered(self, answer: dict[str, Any], before: Iterable[int], now_ms: int, end_ms: int) -> Message:
        """A message of an answer that came at `now_ms`; `before` are the numbers in front of it in that answer."""
        message = self._messages[int(answer["value"])]
        standing, attempt = self.of(message), answer["attempt"]
        assert (answer.get("key"), answer["priority"]) == (message.key, message.priority)
        assert answer["partition"] == message.partition
        assert message.offset in (None, answer["offset"])
        message.offset = answer["offset"]
        assert message.cancelled != "yes", f"{message} was cancelled"
        assert now_ms + CLOCK_MS >= message.due_ms, f"{message} before its time"
        assert standing.settled == "no", f"{message} again, after it was {standing.settled} in {self.name}"
        assert now_ms + CLOCK_MS >= standing.not_before_ms, f"{message} is retried before its time"
        if standing.last is not None:
            assert not standing.last.is_live(now_ms), f"{message} has two leases in {self.name}: {standing.last}"
        low, high = standing.attempts
        assert low <= attempt <= min(high, MAX_ATTEMPTS), f"attempt {attempt} of {message}, not {low} to {high}"
        assert answer["receipt_handle"] not in standing.receipts
        if self.is_ordered and message.key is not None:
            self._check_order(message, answer["receipt_handle"].rsplit(":", 1)[1], set(before), now_ms)
        self._note(message, standing, answer, now_ms, end_ms)
        return message

    def _note(self, message: Message, standing: Standing, answer: dict[str, Any], now_ms: int, end_ms: int) -> None:
        receipt, attempt = answer["receipt_handle"], answer["attempt"]
        self._serial += 1
        standing.last = Held(self._serial, receipt, attempt, end_ms, end_ms)
        standing.receipts.append(receipt)
        standing.may_be.clear()
        standing.not_before_ms = 0
        # In a run of one key only the first can have been worked on when its lease runs out.
        standing.attempts = (attempt if self.is_ordered and message.key is not None else attempt + 1, attempt + 1)

    def _check_order(self, message: Message, lease: str, before: set[int], now_ms: int) -> None:
        assert message.key is not None
        assert message.offset is not None
        place, standing = (message.partition, message.key), self.of(message)
        furthest = self._furthest.get(place, -1)
        assert standing.receipts or message.offset > furthest, f"{message} comes after offset {furthest} of its key"
        self._furthest[place] = max(furthest, message.offset)
        for other in self.same_key(message):
            theirs = self.of(other)
            if other.offset is not None and other.offset < message.offset and other.number not in before:
                assert theirs.may_be_settled(now_ms), f"{message} overtakes {other} in {self.name}: {theirs}"
            if theirs.last is not None and theirs.settled == "no" and theirs.last.is_live(now_ms):
                assert theirs.last.lease == lease, f"{message} and {other} have two leases at a time in {self.name}"

    def same_key(self, message: Message) -> list[Message]:
        """Others of its key and partition."""
        return [
            other
            for other in self._messages.values()
            if other is not message and other.key == message.key and other.partition == message.partition
        ]

    def receive_cut_off(self, until_ms: int) -> None:
        """A receive had no response: anything may have been leased once more, until then at the latest."""
        self.unheard_until_ms = max(self.unheard_until_ms, until_ms)
        for message in self._messages.values():
            standing = self.of(message)
            standing.attempts = (standing.attempts[0], standing.attempts[1] + 1)
            if standing.last is not None and standing.last.ended == "no":
                # Its time may have been over by then, and the message in another lease.
                standing.last.ended = "no" if standing.last.earliest_end_ms > until_ms else "maybe"

    # settlements

    def must_be_good(self, message: Message, now_ms: int) -> bool:
        """Whether the last receipt has to be accepted: it is live, or late and nobody else can have the message."""
        standing = self.of(message)
        if standing.last is None or standing.settled != "no" or standing.last.ended != "no" or standing.may_be:
            return False
        if standing.last.is_live(now_ms):
            return True
        return standing.attempts[1] <= MAX_ATTEMPTS and not self._is_passed_on(message, standing.last)

    def _is_passed_on(self, message: Message, held: Held) -> bool:
        """Whether another lease has begun with the key: then the old one is over for all its messages."""
        if not self.is_ordered or message.key is None:
            return False
        others = [self.of(other).last for other in self.same_key(message)]
        return any(other is not None and other.lease != held.lease and other.serial > held.serial for other in others)

    def acked(self, message: Message, *, cut_off: bool = False) -> None:
        standing = self.of(message)
        if cut_off:
            standing.may_be.add("acked")
            self._end(standing, "maybe")
        else:
            standing.settled = "acked"

    def died(self, message: Message, *, cut_off: bool = False) -> None:
        standing = self.of(message)
        if cut_off:
            standing.may_be.add("dead")
            self._end(standing, "maybe")
        else:
            standing.settled = "dead"

    def given_back(
        self, message: Message, *, is_counted: bool, not_before_ms: int = 0, dies: bool = False, cut_off: bool = False
    ) -> None:
        standing = self.of(message)
        assert standing.last is not None
        attempt = standing.last.attempt
        if is_counted and attempt >= MAX_ATTEMPTS:
            assert dies or cut_off, f"{message} comes again after its last attempt"
        assert not (dies and not is_counted), f"{message} died of a nack that does not count"
        if dies or (cut_off and is_counted and attempt >= MAX_ATTEMPTS):
            self.died(message, cut_off=cut_off)
        else:
            self._end(standing, "maybe" if cut_off else "yes")
            following = attempt + is_counted
            standing.attempts = (min(following, attempt) if cut_off else following, max(following, attempt + cut_off))
            standing.not_before_ms = 0 if cut_off else not_before_ms
        self._give_back_rest(message, standing.last.lease, cut_off=cut_off or dies)

    def _give_back_rest(self, message: Message, lease: str, *, cut_off: bool) -> None:
        """The first nack gives back the rest of a run of one key, uncounted."""
        if not self.is_ordered or message.key is None:
            return
        for other in self.same_key(message):
            standing = self.of(other)
            held = standing.last
            if held is None or standing.settled != "no" or held.ended == "yes" or held.lease != lease:
                continue
            if (other.offset or 0) > (message.offset or 0):
                self._end(standing, "maybe" if cut_off else "yes")
                standing.attempts = (held.attempt, held.attempt + cut_off)

    def extended(self, message: Message, end_ms: int) -> None:
        for held in self._held_with(message):
            held.earliest_end_ms = held.latest_end_ms = end_ms

    def extension_cut_off(self, message: Message, earliest_ms: int, latest_ms: int) -> None:
        """The lease ends as it did before, or between these."""
        for held in self._held_with(message):
            held.earliest_end_ms = min(held.earliest_end_ms, earliest_ms)
            held.latest_end_ms = max(held.latest_end_ms, latest_ms)

    def _held_with(self, message: Message) -> Iterator[Held]:
        """The message's last delivery; of an ordered key all that are in the same lease, which ends as one."""
        mine = self.of(message).last
        assert mine is not None
        yield mine
        if self.is_ordered and message.key is not None:
            others = [self.of(other).last for other in self.same_key(message)]
            yield from (held for held in others if held is not None and held.lease == mine.lease)

    def refused(self, message: Message) -> None:
        """The last receipt is not good any more, which `must_be_good` has said can be: it died, or is with others."""
        standing = self.of(message)
        self._end(standing, "maybe")
        if standing.attempts[1] > MAX_ATTEMPTS:
            standing.may_be.add("dead")

    @staticmethod
    def _end(standing: Standing, how: Ended) -> None:
        assert standing.last is not None
        standing.last.ended = how

    # what must come

    def surely_ready(self, now_ms: int) -> set[int]:
        """Messages that a receive has to give now, whatever else is held."""
        return {number for number, message in self._messages.items() if self._is_surely_ready(message, now_ms)}

    def _is_surely_ready(self, message: Message, now_ms: int) -> bool:
        standing = self.of(message)
        if message.cancelled != "no" or message.due_ms > now_ms or self.unheard_until_ms > now_ms:
            return False
        if standing.may_be_settled(now_ms) or standing.not_before_ms > now_ms:
            return False
        if standing.last is not None and standing.last.may_live(now_ms):
            return False
        if not self.is_ordered or message.key is None:
            return True
        return all(self._is_out_of_the_way(other, message, now_ms) for other in self.same_key(message))

    def _is_out_of_the_way(self, other: Message, message: Message, now_ms: int) -> bool:
        theirs = self.of(other)
        if theirs.settled != "no" or other.cancelled == "yes":
            return True
        if theirs.last is not None:
            return False
        if other.delayed_id is not None and other.offset is None:
            return other.due_ms > now_ms + 60_000
        return message.offset is not None and other.offset is not None and other.offset > message.offset

    def open_numbers(self, now_ms: int) -> set[int]:
        """Messages that this group has not surely settled."""
        return {
            number
            for number, message in self._messages.items()
            if message.cancelled == "no" and not self.of(message).may_be_settled(now_ms)
        }

    def check_end(self, dead_letters: dict[int, list[dict[str, Any]]], now_ms: int) -> None:
        """When the group has nothing left: every message was acked once, or is a dead letter once."""
        for number, message in self._messages.items():
            standing, found = self.of(message), dead_letters.get(number, [])
            what = f"{message} of {self.name}: {standing}, dead letters {found}"
            assert len(found) <= 1, f"a dead letter twice: {what}"
            if message.cancelled != "no" and not standing.receipts:
                assert not found, f"cancelled and dead: {what}"
            elif standing.settled == "acked":
                assert not found, f"acked and dead: {what}"
            elif standing.settled == "dead":
                assert found, f"the dead letter is missing: {what}"
            else:
                assert found or "acked" in standing.may_be, f"lost: {what}"
                assert not found or standing.may_be_dead(now_ms), f"died without a reason: {what}"
            for dead_letter in found:
                assert dead_letter["attempts"] <= MAX_ATTEMPTS, what
