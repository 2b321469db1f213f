"""Which producers there are, at which epoch, and what was decided. Pure: events in, state out.

The epoch of a producer rises with every decision, so a request that names an epoch names one transaction. What is
open is not here: it is forgotten when the broker stops, and aborted when it starts again.
"""

from collections.abc import Iterator, Sequence

import msgspec

from quiver.model.errors import CommitKeyConflict, ProducerFenced, UnknownProducer
from quiver.model.limits import COMMIT_KEYS_REMEMBERED, COMMIT_KEYS_REMEMBERED_MS
from quiver.model.transaction import ProducerKey
from quiver.transactions.events import (
    Completed,
    Decided,
    Event,
    Forgotten,
    Initialized,
    MarkersLeft,
    ProducerOutcome,
    Touched,
)
from quiver.transactions.producer import Answer, CommitKey, KeyedAnswer, LastEnd, Producer
from quiver.transactions.snapshot import encode_state, restore_state

LAST_EPOCH = 2**31 - 2
"""A marker makes the next epoch current in a partition, so that must be a valid epoch too."""
_NO_EPOCH = 2**62


class TransactionState:
    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.ids: dict[str, int] = {}
        """Producer ids by transactional id."""
        self.unfinished: dict[int, Decided] = {}
        """Decisions that are not applied everywhere yet, by id."""
        self.last_decision = 0
        self.commits = 0
        self.aborts = 0
        self.keys: dict[str, KeyedAnswer] = {}
        """The oldest first."""

    def snapshot(self) -> Iterator[bytes]:
        return encode_state(self)

    def restore(self, data: bytes) -> None:
        restore_state(data, self)

    # questions

    def check(self, producer_id: int, epoch: int) -> Producer:
        """The producer, if this is its epoch. Raises UnknownProducer, ProducerFenced."""
        producer = self.producers.get(producer_id)
        if producer is None:
            raise UnknownProducer(
                f"producer {producer_id} has no transactions; call init first", producer_id=producer_id
            )
        if producer.epoch != epoch:
            raise _fenced(producer_id, epoch, producer)
        return producer

    def keyed(self, key: CommitKey) -> Answer | None:
        """The result of a commit with this key. Raises CommitKeyConflict if that had another description."""
        found = self.keys.get(key.name)
        if found is None:
            return None
        if None not in (found.description, key.description) and found.description != key.description:
            raise CommitKeyConflict(key=key.name, committed=found.description, asked=key.description)
        return Answer(True, found.producers, is_repeat=True)

    def repeated(self, producers: Sequence[ProducerKey], *, commit: bool) -> Answer | None:
        """The result of the same commit or abort, if it was the last of these producers."""
        ends = [self._last_end(key, commit) for key in producers]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends) or (commit and len({end.decision for end in known}) > 1):
            return None
        return Answer(commit, [end.next for end in known], is_repeat=True)

    def _last_end(self, key: ProducerKey, commit: bool) -> LastEnd | None:
        producer = self.producers.get(key.producer_id)
        last = None if producer is None else producer.last
        return last if last is not None and (last.epoch, last.commit) == (key.epoch, commit) else None

    def was_committed(self, producer_id: int, epoch: int) -> bool:
        """Whether to commit an open transaction that is found in a log: only if that was decided."""
        for decided in self.unfinished.values():
            for outcome in decided.outcomes:
                if (outcome.producer_id, outcome.epoch) == (producer_id, epoch):
                    return decided.commit
        producer = self.producers.get(producer_id)
        last = None if producer is None else producer.last
        return last is not None and last.epoch == epoch and last.commit

    def silent_since(self, time_ms: int, *, named: bool) -> list[int]:
        """Producers, with a transactional id or without, that were not used since a time."""
        busy = {outcome.producer_id for decided in self.unfinished.values() for outcome in decided.outcomes}
        return [
            producer_id
            for producer_id, producer in self.producers.items()
            if producer.used_at_ms < time_ms
            and (producer.transactional_id is not None) == named
            and producer_id not in busy
        ]

    # events

    def apply(self, event: Event) -> None:
        match event:
            case Initialized():
                self._initialize(event)
            case Touched(producer_id, epoch):
                producer = self.producers.get(producer_id)
                if producer is not None and producer.epoch == epoch:
                    producer.is_touched = True
            case Decided():
                self._decide(event)
            case MarkersLeft(id, outcomes):
                if id in self.unfinished:
                    rest = msgspec.structs.replace(self.unfinished[id], outcomes=outcomes, offsets=[], acks=[])
                    self.unfinished[id] = rest
            case Completed(ids):
                self._complete(ids)
            case Forgotten(producer_ids):
                for producer_id in producer_ids:
                    self._forget(producer_id)

    def _initialize(self, event: Initialized) -> None:
        before = None if event.transactional_id is None else self.ids.get(event.transactional_id)
        if before is not None and before != event.producer_id:  # its epochs were used up
            self.producers[before].epoch, self.producers[before].transactional_id = _NO_EPOCH, None
        known = self.producers.get(event.producer_id)
        # A repeated request about a transaction that had ended is told how it ended.
        last = None if known is None else known.last
        self.producers[event.producer_id] = Producer(
            event.epoch, event.transactional_id, event.timeout_ms, event.at_ms, last=last
        )
        if event.transactional_id is not None:
            self.ids[event.transactional_id] = event.producer_id

    def _decide(self, decided: Decided) -> None:
        self.last_decision = max(self.last_decision, decided.id)
        self._complete(decided.completed)
        self.unfinished[decided.id] = decided
        for outcome in decided.outcomes:
            self._end(decided, outcome)
        if decided.commit:
            self.commits += 1
        else:
            self.aborts += len(decided.outcomes)
        if decided.key is not None:
            self.keys.pop(decided.key, None)
            producers = [ProducerKey(outcome.next_id, outcome.next_epoch) for outcome in decided.outcomes]
            self.keys[decided.key] = KeyedAnswer(decided.at_ms, producers, decided.description)
        self._forget_keys(decided.at_ms)

    def _end(self, decided: Decided, outcome: ProducerOutcome) -> None:
        producer = self.producers.get(outcome.producer_id)
        if producer is None:
            return
        producer.used_at_ms, producer.is_touched = decided.at_ms, False
        following = ProducerKey(outcome.next_id, outcome.next_epoch)
        # A fenced producer must not get the epoch of the one that took over.
        is_told = decided.reason != "fenced"
        last = LastEnd(decided.id, outcome.epoch, decided.commit, following, decided.at_ms)
        producer.last = last if is_told else None
        if outcome.next_id == outcome.producer_id:
            producer.epoch = outcome.next_epoch
            return
        producer.epoch = _NO_EPOCH
        heir = Producer(outcome.next_epoch, producer.transactional_id, producer.timeout_ms, decided.at_ms)
        producer.transactional_id = None
        self.producers[outcome.next_id] = heir
        if heir.transactional_id is not None:
            self.ids[heir.transactional_id] = outcome.next_id

    def _complete(self, ids: Sequence[int]) -> None:
        for id in ids:
            self.unfinished.pop(id, None)

    def _forget(self, producer_id: int) -> None:
        producer = self.producers.pop(producer_id, None)
        if producer is not None and producer.transactional_id is not None:
            self.ids.pop(producer.transactional_id, None)

    def _forget_keys(self, now_ms: int) -> None:
        while self.keys:
            oldest = next(iter(self.keys))
            too_old = self.keys[oldest].at_ms + COMMIT_KEYS_REMEMBERED_MS < now_ms
            if not too_old and len(self.keys) <= COMMIT_KEYS_REMEMBERED:
                return
            del self.keys[oldest]


def _fenced(producer_id: int, epoch: int, producer: Producer) -> ProducerFenced:
    """The error for an epoch that ended with its own transaction, without anybody taking over."""
    details = {"producer_id": producer_id, "epoch": epoch, "current": producer.epoch}
    last = producer.last
    if last is not None and last.epoch == epoch:
        outcome = "committed" if last.commit else "aborted"
        return ProducerFenced(
            f"epoch {epoch} of producer {producer_id} has ended: its transaction was {outcome}; continue with "
            f"producer {last.next.producer_id} epoch {last.next.epoch}",
            **details,
        )
    if epoch > producer.epoch:
        return ProducerFenced(
            f"producer {producer_id} has no epoch {epoch} yet; use the one of the last response, or begin with init",
            **details,
        )
    return ProducerFenced(**details)
