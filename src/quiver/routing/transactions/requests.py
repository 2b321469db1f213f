"""What workers ask worker 0 about transactions. Fields have the names of the parameters of `Transactions`."""

from quiver.links.request import PeerRequest
from quiver.messages.publish import Published
from quiver.model.message import NewMessage
from quiver.model.transaction import (
    GroupOffsetCommit,
    LeasedAcks,
    ProducerInfo,
    ProducerKey,
    TransactionInfo,
)
from quiver.transactions.producer import Answer
from quiver.transactions.service import TransactionStats


class Init(PeerRequest[ProducerKey], frozen=True):
    capability, method = "transactions", "init"
    transactional_id: str | None
    timeout_ms: int


class CheckName(PeerRequest[None], frozen=True):
    capability, method = "transactions", "check_name"
    producer_id: int
    transactional_id: str


class Heartbeat(PeerRequest[None], frozen=True):
    capability, method = "transactions", "heartbeat"
    producer_id: int
    epoch: int


class Begin(PeerRequest[TransactionInfo], frozen=True):
    capability, method = "transactions", "begin"
    producer_id: int
    epoch: int


class AddPartition(PeerRequest[None], frozen=True):
    capability, method = "transactions", "add_partition"
    producer_id: int
    epoch: int
    topic_name: str
    partition: int


class PublishOne(PeerRequest[Published], frozen=True):
    capability, method = "transactions", "publish"
    producer_id: int
    epoch: int
    topic: str
    message: NewMessage
    sequence: int | None


class AddOffsets(PeerRequest[None], frozen=True):
    capability, method = "transactions", "add_offsets"
    producer_id: int
    epoch: int
    groups: list[GroupOffsetCommit]


class AddAcks(PeerRequest[None], frozen=True):
    capability, method = "transactions", "add_acks"
    producer_id: int
    epoch: int
    acks: list[LeasedAcks]


class Commit(PeerRequest[Answer], frozen=True):
    capability, method = "transactions", "commit"
    producers: list[ProducerKey]
    key: str | None
    description: str | None
    offsets: list[GroupOffsetCommit]
    acks: list[LeasedAcks]


class Abort(PeerRequest[Answer], frozen=True):
    capability, method = "transactions", "abort"
    producers: list[ProducerKey]


class ListTransactions(PeerRequest[tuple[list[TransactionInfo], int]], frozen=True):
    capability, method = "transactions", "list"
    skip: int
    limit: int


class ListProducers(PeerRequest[tuple[list[ProducerInfo], int]], frozen=True):
    capability, method = "transactions", "producers"
    skip: int
    limit: int


class Describe(PeerRequest[TransactionInfo], frozen=True):
    capability, method = "transactions", "describe"
    transactional_id: str | None
    producer_id: int


class Stats(PeerRequest[TransactionStats], frozen=True):
    capability, method = "transactions", "stats"


OF_WORKER_0 = (
    Init,
    CheckName,
    Heartbeat,
    Begin,
    AddPartition,
    PublishOne,
    AddOffsets,
    AddAcks,
    Commit,
    Abort,
    ListTransactions,
    ListProducers,
    Describe,
    Stats,
)
