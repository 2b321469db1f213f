"""What worker 0 asks the owners of partitions and groups about a transaction, and what they ask it."""

from quiver.links.request import PeerRequest
from quiver.model.transaction import GroupOffsetCommit
from quiver.transactions.events import Participant
from quiver.transactions.owners.port import Finish, OpenInLog, Outcomes, Prepare, Question


class OpenInLogs(PeerRequest[list[OpenInLog]], frozen=True):
    """Worker 0 has started: its term begins."""

    capability, method = "transactions", "open_in_logs"
    term: int


class CheckOffsets(PeerRequest[None], frozen=True):
    capability, method = "transactions", "check_offsets"
    groups: list[GroupOffsetCommit]


class PreparePart(PeerRequest[None], frozen=True):
    capability, method = "transactions", "prepare"
    term: int
    part: Prepare


class ReleasePart(PeerRequest[None], frozen=True):
    capability, method = "transactions", "release"
    part: Prepare


class FinishPart(PeerRequest[bool], frozen=True):
    capability, method = "transactions", "finish"
    part: Finish


class SyncLogs(PeerRequest[bool], frozen=True):
    capability, method = "transactions", "sync"
    participants: list[Participant]


class NextSequence(PeerRequest[int], frozen=True):
    """Of the next frame of a producer that has nothing in flight."""

    capability, method = "transactions", "next_sequence"
    topic_id: int
    partition: int
    producer_id: int
    epoch: int


class Join(PeerRequest[int], frozen=True):
    """Of worker 0. The result is its term."""

    capability, method = "transactions", "join"
    producer_id: int
    epoch: int
    participant: Participant


class AskOutcomes(PeerRequest[Outcomes], frozen=True):
    capability, method = "transactions", "outcomes"
    question: Question
