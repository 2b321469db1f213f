"""What workers ask of each other about topics."""

from typing import Any

from quiver.links.request import PeerRequest
from quiver.model.topic import Topic
from quiver.topics.details import PartitionDetails


class Create(PeerRequest[Topic], frozen=True):
    """Of worker 0, as the changes that follow."""

    capability, method = "topics", "create"
    name: str
    settings: dict[str, Any]


class Ensure(PeerRequest[None], frozen=True):
    capability, method = "topics", "ensure"
    name: str


class Alter(PeerRequest[Topic], frozen=True):
    capability, method = "topics", "alter"
    name: str
    settings: dict[str, Any]


class AddPartitions(PeerRequest[tuple[int, int]], frozen=True):
    capability, method = "topics", "add_partitions"
    name: str
    count: int


class Delete(PeerRequest[None], frozen=True):
    capability, method = "topics", "delete"
    name: str


class Prepare(PeerRequest[None], frozen=True):
    """Of an owner: it opens its partitions of a topic as that is going to be."""

    capability, method = "topics", "prepare"
    topic: Topic


class Opened(PeerRequest[None], frozen=True):
    """It has opened its partitions of a new topic."""

    capability, method = "topics", "opened"
    topic_id: int


class Ended(PeerRequest[None], frozen=True):
    """It does not work on a deleted topic any more."""

    capability, method = "topics", "ended"
    topic_id: int


class Describe(PeerRequest[list[PartitionDetails]], frozen=True):
    """The partitions that the worker owns."""

    capability, method = "topics", "describe"
    name: str
