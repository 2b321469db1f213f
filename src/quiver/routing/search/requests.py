"""What is asked of the owner of a partition that is searched or followed, and of the worker that runs a search."""

import msgspec

from quiver.links.request import PeerRequest
from quiver.model.message import StoredMessage
from quiver.model.position import Position
from quiver.search.job import Progress
from quiver.search.partition_walk import WalkState
from quiver.search.tail import TailPart


class Looked(msgspec.Struct, frozen=True, array_like=True):
    """What a search wants of a partition."""

    topic_id: int
    partition: int
    where: str
    newest_first: bool
    include_expired: bool
    now_ms: int


class OpenWalk(PeerRequest[WalkState], frozen=True):
    capability, method = "search", "open_walk"
    wanted: Looked
    start: Position
    end: Position
    cursor: int | None


class StepWalk(PeerRequest[tuple[WalkState, list[StoredMessage]]], frozen=True):
    """Looks at one slice. The owner keeps nothing between two steps."""

    capability, method, only_waits = "search", "step_walk", True
    wanted: Looked
    state: WalkState
    limit: int


class GetProgress(PeerRequest[Progress], frozen=True):
    capability, method, only_waits = "search", "progress", True
    id: str
    after: int
    wait_seconds: float


class Cancel(PeerRequest[Progress], frozen=True):
    capability, method = "search", "cancel"
    id: str


class OpenTail(PeerRequest[int], frozen=True):
    """Follows the partitions of a topic that the worker owns; returns the number of the tail."""

    capability, method = "search", "open_tail"
    topic: str
    where: str | None
    rate: int
    partition: int | None


class NextPart(PeerRequest[TailPart], frozen=True):
    """A tail that is no longer waited for is closed."""

    capability, method, only_waits = "search", "next_part", True
    tail: int


class CloseTail(PeerRequest[None], frozen=True):
    capability, method = "search", "close_tail"
    tail: int
