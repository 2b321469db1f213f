"""Transactions as they are listed and described."""

import heapq
from collections.abc import Iterable

from quiver.model.transaction import GroupOffsetCommit, LeasedAcks, ProducerInfo, TransactionInfo
from quiver.streams.service import Streams
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.events import Decided, Participant, ProducerOutcome
from quiver.transactions.open_transaction import OpenTransaction
from quiver.transactions.producer import Producer


def list_transactions(coordinator: Coordinator, streams: Streams) -> list[TransactionInfo]:
    """Open ones, oldest first; then those whose markers are not everywhere yet."""
    opened = sorted(coordinator.open.values(), key=lambda each: (each.started_at_ms, each.producer_id))
    found = [_of_open(transaction, streams) for transaction in opened]
    for decided in coordinator.state.unfinished.values():
        if decided.id not in coordinator.completed_ids:
            found += [_of_decided(decided, outcome, coordinator, streams) for outcome in decided.outcomes]
    return found


def describe(
    coordinator: Coordinator, streams: Streams, transactional_id: str | None, producer_id: int
) -> TransactionInfo:
    """Raises TransactionNotFound if there is no such producer."""
    producer_id, producer = coordinator.producer(transactional_id, producer_id)
    opened = coordinator.open.get(producer_id)
    if opened is not None:
        return _of_open(opened, streams)
    last = producer.last
    decided = None if last is None else coordinator.state.unfinished.get(last.decision)
    if decided is not None and decided.id not in coordinator.completed_ids:
        for outcome in decided.outcomes:
            if outcome.producer_id == producer_id:
                return _of_decided(decided, outcome, coordinator, streams)
    state = "empty" if last is None else "committed" if last.commit else "aborted"
    epoch = producer.epoch if last is None else last.epoch
    at_ms = producer.used_at_ms if last is None else last.at_ms
    return TransactionInfo(
        f"{producer_id}:{epoch}",
        producer.transactional_id,
        producer_id,
        epoch,
        state,
        at_ms,
        producer.timeout_ms,
        [],
        [],
    )


def list_producers(coordinator: Coordinator, *, skip: int, limit: int) -> list[ProducerInfo]:
    """Those that were used last come first."""
    found = heapq.nlargest(
        skip + limit, coordinator.state.producers.items(), key=lambda item: (item[1].used_at_ms, item[0])
    )
    return [_of_producer(id, producer, is_open=id in coordinator.open) for id, producer in found[skip:]]


def _of_producer(producer_id: int, producer: Producer, *, is_open: bool) -> ProducerInfo:
    last = producer.last
    return ProducerInfo(
        producer_id,
        producer.transactional_id,
        producer.epoch,
        producer.used_at_ms,
        producer.timeout_ms,
        is_open,
        None if last is None else last.epoch,
        last is not None and last.commit,
        0 if last is None else last.at_ms,
    )


def _of_open(transaction: OpenTransaction, streams: Streams) -> TransactionInfo:
    return TransactionInfo(
        transaction.id,
        transaction.transactional_id,
        transaction.producer_id,
        transaction.epoch,
        "open",
        transaction.started_at_ms,
        transaction.timeout_ms,
        _partitions(transaction.participants, streams),
        _groups(transaction.offsets, transaction.acks, streams),
    )


def _of_decided(
    decided: Decided, outcome: ProducerOutcome, coordinator: Coordinator, streams: Streams
) -> TransactionInfo:
    producer = coordinator.state.producers.get(outcome.producer_id)
    return TransactionInfo(
        f"{outcome.producer_id}:{outcome.epoch}",
        None if producer is None else producer.transactional_id,
        outcome.producer_id,
        outcome.epoch,
        "committing" if decided.commit else "aborting",
        decided.at_ms,
        0 if producer is None else producer.timeout_ms,
        _partitions(outcome.participants, streams),
        _groups(decided.offsets, decided.acks, streams),
    )


def _partitions(participants: Iterable[Participant], streams: Streams) -> list[tuple[str, int]]:
    named = {(streams.topic_name(participant.topic_id), participant.partition) for participant in participants}
    return sorted((topic, partition) for topic, partition in named if topic is not None)


def _groups(offsets: Iterable[GroupOffsetCommit], acks: Iterable[LeasedAcks], streams: Streams) -> list[str]:
    names = {each.group for each in offsets}
    names |= {streams.groups.name_of(each.group_id) or str(each.group_id) for each in acks}
    return sorted(names)
