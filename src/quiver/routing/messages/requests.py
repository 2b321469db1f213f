"""What is asked of the owner of a partition."""

from quiver.links.request import PeerRequest
from quiver.model.position import Position
from quiver.partition.pending import Appended


class Produce(PeerRequest[Appended], frozen=True):
    """The frame is the payload."""

    capability, method = "messages", "produce"
    topic_id: int
    partition: int
    partition_count: int


class FindOffset(PeerRequest[int], frozen=True):
    capability, method = "messages", "find_offset"
    topic_id: int
    partition: int
    position: Position
    read_committed: bool
