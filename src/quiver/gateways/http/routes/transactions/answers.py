"""Answers about transactions."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.model.times import format_time
from quiver.model.transaction import ProducerKey, TransactionInfo


class ProducerAnswer(msgspec.Struct, kw_only=True):
    producer_id: int
    epoch: int


class BegunAnswer(msgspec.Struct, kw_only=True):
    transaction_id: str
    producer_id: int
    epoch: int


class PublishedAnswer(msgspec.Struct):
    partition: int
    offset: int
    duplicate: bool
    delayed: Annotated[bool | UnsetType, Meta(description="It waits; offset is its id in /delayed.")] = UNSET


class EndedAnswer(msgspec.Struct, kw_only=True):
    """Producer id and epoch are those for the next transaction."""

    status: Literal["committed", "aborted"]
    producer_id: int
    epoch: int
    producers: Annotated[list[ProducerAnswer] | UnsetType, Meta(description="If there are several.")] = UNSET
    repeated: Annotated[bool | UnsetType, Meta(description="It was decided before.")] = UNSET

    @classmethod
    def of(
        cls, status: Literal["committed", "aborted"], producers: Sequence[ProducerKey], is_repeat: bool
    ) -> "EndedAnswer":
        answers = [ProducerAnswer(producer_id=each.producer_id, epoch=each.epoch) for each in producers]
        return cls(
            status=status,
            producer_id=answers[0].producer_id,
            epoch=answers[0].epoch,
            producers=answers if len(answers) > 1 else UNSET,
            repeated=True if is_repeat else UNSET,
        )


class TransactionPartition(msgspec.Struct):
    topic: str
    partition: int


class TransactionAnswer(msgspec.Struct, kw_only=True):
    transaction_id: str
    transactional_id: str | None
    producer_id: int
    epoch: int
    state: Literal["empty", "open", "committing", "aborting", "committed", "aborted"]
    started_at: str
    timeout_ms: int
    partitions: list[TransactionPartition]
    groups: list[str]


class TransactionListAnswer(msgspec.Struct):
    """Those that are open, or whose end is not known to every partition yet."""

    transactions: list[TransactionAnswer]
    count: int


class TransactionStatsAnswer(msgspec.Struct, kw_only=True):
    active_transactions: int
    committed_total: int
    aborted_total: int
    avg_duration: Annotated[float, Meta(description="Seconds from begin to decision, since the broker began.")]


def transaction_answer(info: TransactionInfo) -> TransactionAnswer:
    return TransactionAnswer(
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
