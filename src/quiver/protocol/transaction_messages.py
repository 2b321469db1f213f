"""Requests and responses about transactions.

A transaction belongs to a producer id and epoch. Its frames travel in Produce, with the transactional attribute, that
id and that epoch, and sequences from 0 in every partition.
"""

import msgspec

from quiver.model.transaction import DEFAULT_TIMEOUT_MS as DEFAULT_TIMEOUT_MS
from quiver.model.transaction import CommitPart as CommitPart
from quiver.model.transaction import GroupOffsetCommit as GroupOffsetCommit
from quiver.model.transaction import LeasedAcks as LeasedAcks
from quiver.model.transaction import ProducerKey as ProducerKey
from quiver.model.transaction import TransactionInfo as TransactionInfo
from quiver.protocol.message import Message


class InitTransactions(Message, tag=80, frozen=True):
    """A producer for transactions. Response: ProducerIdentity.

    With a transactional id it is the same one every time, one epoch higher: its earlier user is fenced, and
    what that one has left open is aborted.
    """

    transactional_id: str | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    """A transaction that is open longer is aborted; at most 24 hours."""


class BeginTransaction(Message, tag=81, frozen=True):
    """Begins a transaction by name; the first frame, offset or ack does so as well. Response: Transaction."""

    producer_id: int
    epoch: int


class AddOffsets(Message, tag=82, frozen=True):
    """Adds offsets to a transaction; the last one for a partition counts. Response: Done."""

    producer_id: int
    epoch: int
    groups: list[GroupOffsetCommit]


class AddAcks(Message, tag=83, frozen=True):
    """Adds acknowledgements to a transaction. The leases must last until it is committed. Response: Done."""

    producer_id: int
    epoch: int
    acks: list[LeasedAcks]


class CommitTransaction(Message, tag=84, frozen=True):
    """Makes everything of one or several producers visible at once, or nothing. Response: TransactionEnded."""

    producers: list[ProducerKey]
    key: str | None = None
    """Chosen by the caller: the same one again gets the same response, whatever the producers are."""
    offsets: list[GroupOffsetCommit] = msgspec.field(default_factory=list)
    """As in AddOffsets, and in addition to what was added before."""
    acks: list[LeasedAcks] = msgspec.field(default_factory=list)
    description: str | None = None
    """What the key stands for: with another one than the first commit had, the same key is refused."""


class AbortTransaction(Message, tag=85, frozen=True):
    """Takes back everything of one or several producers. Response: TransactionEnded."""

    producers: list[ProducerKey]


class ListTransactions(Message, tag=86, frozen=True):
    """Transactions that are open, or whose end is not known to every partition yet. Response: TransactionList."""

    limit: int = 1000
    skip: int = 0


class DescribeTransaction(Message, tag=87, frozen=True):
    """Response: Transaction, the one of the producer that is open or has ended last."""

    transactional_id: str | None = None
    producer_id: int = -1
    """If there is no transactional id."""


class GetTransactionStats(Message, tag=88, frozen=True):
    """Response: TransactionStats."""


TransactionRequest = (
    InitTransactions
    | BeginTransaction
    | AddOffsets
    | AddAcks
    | CommitTransaction
    | AbortTransaction
    | ListTransactions
    | DescribeTransaction
    | GetTransactionStats
)


class Transaction(Message, tag=180, frozen=True):
    info: TransactionInfo


class TransactionEnded(Message, tag=181, frozen=True):
    committed: bool
    producers: list[ProducerKey]
    """In the order of the request: what each producer uses in its next transaction."""
    repeated: bool = False
    """It was decided before; this is the same response again."""


class TransactionList(Message, tag=182, frozen=True):
    transactions: list[TransactionInfo]
    total: int


class TransactionStats(Message, tag=183, frozen=True):
    active: int
    committed: int
    aborted: int
    average_duration_ms: float
    """From the beginning to the decision, of those that were decided since the broker began."""


TransactionResponse = Transaction | TransactionEnded | TransactionList | TransactionStats
