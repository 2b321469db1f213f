"""An open transaction and everything that is part of it. In memory only."""

from collections.abc import Iterable

import msgspec

from quiver.model.errors import TransactionConflict
from quiver.model.transaction import CommitPart, GroupOffsetCommit, LeasedAcks
from quiver.partition.partition import Appended
from quiver.transactions.events import Participant
from quiver.transactions.owners.frames import TransactionFrames
from quiver.transactions.sent_sequences import SentSequences


class OpenTransaction:
    """Belongs to one event loop."""

    def __init__(self, producer_id: int, epoch: int, *, transactional_id: str | None, timeout_ms: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.started_at_ms = 0
        self.deadline_ms = 0
        """When it is aborted, on the steady clock."""
        self.last_deadline_ms = 0
        """Heartbeats cannot move the deadline beyond this."""
        self.participants: dict[Participant, None] = {}
        self.frames = TransactionFrames(self.id)
        """Those for logs of this worker."""
        self.acks: list[LeasedAcks] = []
        self.sent_sequences: dict[Participant, SentSequences[Appended]] = {}
        """Sequences of messages that are sent one by one."""
        self.is_ending = False
        self.is_in_doubt = False
        """It is not known whether its commit is on disk: it can no longer be used, and the next start finds out."""
        self.is_left_over = False
        """It was open when the broker stopped, and its end could not be written yet."""
        self._offsets: dict[tuple[str, str | None], GroupOffsetCommit] = {}
        """By group and member."""

    @property
    def id(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @property
    def offsets(self) -> list[GroupOffsetCommit]:
        return list(self._offsets.values())

    @property
    def has_settlements(self) -> bool:
        """Whether it has offsets or acks, which no partition's log shows."""
        return bool(self._offsets or self.acks)

    def check_open(self) -> None:
        if self.is_left_over:
            raise TransactionConflict(transaction=self.id, problem="the broker was restarted and will abort it")
        if self.is_ending:
            raise TransactionConflict(transaction=self.id, problem="it is about to end")

    def add_offsets(self, groups: Iterable[GroupOffsetCommit]) -> None:
        """The last offset per partition."""
        for given in groups:
            key = (given.group, given.member_id)
            before = self._offsets.get(key)
            self._offsets[key] = given if before is None else _merged(before, given)


def by_group(offsets: Iterable[GroupOffsetCommit]) -> list[GroupOffsetCommit]:
    """Each group once, even if offsets come from several of its members."""
    found: dict[str, GroupOffsetCommit] = {}
    for given in offsets:
        before = found.get(given.group, GroupOffsetCommit(given.group, []))
        found[given.group] = msgspec.structs.replace(_merged(before, given), member_id=None, generation=None)
    return list(found.values())


def _merged(before: GroupOffsetCommit, given: GroupOffsetCommit) -> GroupOffsetCommit:
    parts: dict[tuple[int, int], CommitPart] = {
        (part.topic_id, part.partition): part for part in (*before.offsets, *given.offsets)
    }
    return GroupOffsetCommit(given.group, list(parts.values()), given.member_id, given.generation)
