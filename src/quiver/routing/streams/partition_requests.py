"""What owners of groups ask of owners of partitions, and the other way round."""

from quiver.links.request import PeerRequest
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.routing.streams.requests import PartitionOffset
from quiver.streams.owners.port import Commit, PartitionFacts


class Ends(PeerRequest[list[PartitionOffset]], frozen=True):
    capability, method = "streams", "ends"
    partitions: list[TopicPartition]


class Facts(PeerRequest[list[tuple[TopicPartition, PartitionFacts]]], frozen=True):
    capability, method = "streams", "facts"
    group_id: int
    commits: list[tuple[TopicPartition, Commit | None]]
    with_age: bool


class Find(PeerRequest[list[PartitionOffset]], frozen=True):
    capability, method = "streams", "find"
    partitions: list[TopicPartition]
    position: Position


class Follow(PeerRequest[None], frozen=True):
    capability, method = "streams", "follow"
    group_id: int
    commits: list[tuple[TopicPartition, Commit]]


class CommitsIn(PeerRequest[list[tuple[TopicPartition, dict[int, Commit]]]], frozen=True):
    """Of an owner of groups: what they have committed in partitions, by group id. Asked while workers start."""

    capability, method, needs_view = "streams", "commits", False
    partitions: list[TopicPartition]
