"""Responses about transactions."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.model.times import format_time
from quiver.model.transaction import ProducerInfo, ProducerKey, TransactionInfo


class ProducerResponse(msgspec.Struct, kw_only=True):
    producer_id: int
    epoch: int


class BegunResponse(msgspec.Struct, kw_only=True):
    transaction_id: str
    producer_id: int
    epoch: int


class PublishedResponse(msgspec.Struct):
    partition: int
    offset: int
    duplicate: bool
    delayed: Annotated[bool | UnsetType, Meta(description="It waits; offset is its id in /delayed.")] = UNSET


class EndedResponse(msgspec.Struct, kw_only=True):
    """Producer id and epoch are those for the next transaction."""

    status: Literal["committed", "aborted"]
    producer_id: int
    epoch: int
    producers: Annotated[list[ProducerResponse] | UnsetType, Meta(description="If there are several.")] = UNSET
    repeated: Annotated[bool | UnsetType, Meta(description="It was decided by an earlier request.")] = UNSET

    @classmethod
    def of(
        cls, status: Literal["committed", "aborted"], producers: Sequence[ProducerKey], is_repeat: bool
    ) -> "EndedResponse":
        responses = [ProducerResponse(producer_id=each.producer_id, epoch=each.epoch) for each in producers]
        return cls(
            status=status,
            producer_id=responses[0].producer_id,
            epoch=responses[0].epoch,
            producers=responses if len(responses) > 1 else UNSET,
            repeated=True if is_repeat else UNSET,
        )


class TransactionPartition(msgspec.Struct):
    topic: str
    partition: int


class TransactionResponse(msgspec.Struct, kw_only=True):
    transaction_id: str
    transactional_id: str | None
    producer_id: int
    epoch: int
    state: Literal["empty", "open", "committing", "aborting", "committed", "aborted"]
    started_at: str
    timeout_ms: int
    partitions: list[TransactionPartition]
    groups: list[str]


class TransactionListResponse(msgspec.Struct):
    """Those that are open, or whose end is not known to every partition yet."""

    transactions: list[TransactionResponse]
    count: int


class TransactionalProducerResponse(msgspec.Struct, kw_only=True):
    producer_id: int
    transactional_id: str | None
    epoch: Annotated[int, Meta(description="The current one: a request with a lower one is fenced.")]
    used_at: str
    timeout_ms: int
    is_open: Annotated[bool, Meta(description="It has a transaction now.")]
    last_transaction_id: Annotated[str | None, Meta(description="Of the transaction that was decided last.")]
    last_outcome: Literal["committed", "aborted"] | None
    last_decided_at: str | None


class TransactionalProducerListResponse(msgspec.Struct):
    """Those that were used last come first."""

    producers: list[TransactionalProducerResponse]
    count: int


class TransactionStatsResponse(msgspec.Struct, kw_only=True):
    active_transactions: int
    committed_total: int
    aborted_total: int
    avg_duration: Annotated[float, Meta(description="Seconds from begin to decision, since the broker was started.")]


def transaction_response(info: TransactionInfo) -> TransactionResponse:
    return TransactionResponse(
        transaction_id=info.transaction_id,
        transactional_id=info.transactional_id,
        producer_id=info.producer_id,
        epoch=info.epoch,
        state=info.state,  # type: ignore[arg-type]
        started_at=format_time(info.started_at_ms),
        timeout_ms=info.timeout_ms,
        partitions=[TransactionPartition(topic, partition) for topic, partition in info.partitions],
        groups=info.groups,
    )


def producer_response(info: ProducerInfo) -> TransactionalProducerResponse:
    has_ended = info.last_epoch is not None
    return TransactionalProducerResponse(
        producer_id=info.producer_id,
        transactional_id=info.transactional_id,
        epoch=info.epoch,
        used_at=format_time(info.used_at_ms),
        timeout_ms=info.timeout_ms,
        is_open=info.is_open,
        last_transaction_id=f"{info.producer_id}:{info.last_epoch}" if has_ended else None,
        last_outcome=("committed" if info.last_committed else "aborted") if has_ended else None,
        last_decided_at=format_time(info.last_decided_at_ms) if has_ended else None,
    )
