"""What the coordinator of transactions and the owners of partitions and groups ask each other.

All of it can be repeated. A *decision* is named by a number that no other decision of any term has; a *term* is one
run of the coordinator's process.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from quiver.model.transaction import GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.transactions.events import Participant, ProducerOutcome


class OpenInLog(NamedTuple):
    """A transaction that has frames in a log."""

    producer_id: int
    epoch: int
    participant: Participant


class Prepare(msgspec.Struct, array_like=True, frozen=True):
    """What one owner has to do with a transaction that is about to be committed."""

    decision: int
    producers: list[ProducerKey]
    """Those with frames in its logs: they are complete before it responds."""
    offsets: list[GroupOffsetCommit] = []
    acks: list[LeasedAcks] = []


class Finish(msgspec.Struct, array_like=True, frozen=True):
    """A decision, as far as it concerns one owner."""

    decision: int
    commit: bool
    outcomes: list[ProducerOutcome]
    """With the logs of that owner, which get a marker."""
    offsets: list[GroupOffsetCommit] = []
    acks: list[LeasedAcks] = []


class Question(msgspec.Struct, array_like=True, frozen=True):
    """What an owner does not know the end of."""

    decisions: list[int]
    opened: list[OpenInLog]


class Outcomes(msgspec.Struct, array_like=True, frozen=True):
    """In the order of the question: committed or not; None while it is not decided."""

    term: int
    decisions: list[bool | None]
    opened: list[bool | None]


class TransactionOwners(Protocol):
    """What the coordinator needs of other workers. WorkerUnavailable: it is not known whether one did it."""

    @property
    def workers(self) -> Sequence[int]:
        """The others."""
        ...

    def of_partition(self, topic_id: int, partition: int) -> int | None:
        """The worker that owns it; None: this one, or nobody because the topic is gone."""
        ...

    def of_group(self, group: str) -> int | None:
        """The worker that has its members and offsets; None: this one."""
        ...

    async def opened(self, worker: int, term: int) -> list[OpenInLog]:
        """The coordinator's new term begins: what is open in that worker's logs."""
        ...

    async def check_offsets(self, worker: int, groups: Sequence[GroupOffsetCommit]) -> None: ...

    async def prepare(self, worker: int, term: int, prepare: Prepare) -> None: ...

    async def release(self, worker: int, prepare: Prepare) -> None:
        """It is not decided, and the transaction stays open."""
        ...

    async def finish(self, worker: int, finish: Finish) -> bool:
        """Whether all of it is done; otherwise it is asked again."""
        ...

    async def sync(self, worker: int, participants: Sequence[Participant]) -> bool:
        """Whether these logs are on disk as far as they are written."""
        ...


class TransactionCoordinator(Protocol):
    """What an owner needs of the coordinator."""

    async def join(self, producer_id: int, epoch: int, participant: Participant) -> int:
        """Makes a log part of the open transaction, before its first frame is written. Returns the term."""
        ...

    async def outcomes(self, question: Question) -> Outcomes: ...
