"""What workers ask of each other about topics."""

from typing import Any, NamedTuple

from quiver.broker.broker import Broker
from quiver.links.request import PeerRequest
from quiver.model.topic import Topic
from quiver.routing.owned_request import OwnedRequest
from quiver.storage.port import Compacted
from quiver.topics.details import PartitionDetails


class OwnStats(NamedTuple):
    uptime_seconds: float
    topics: dict[str, list[PartitionDetails]]


class Create(OwnedRequest[Topic], frozen=True):
    """Of worker 0, as the changes that follow."""

    capability, method = "topics", "create"
    name: str
    settings: dict[str, Any]

    async def carry_out(self, broker: Broker) -> Topic:
        return await broker.create_topic(self.name, self.settings)


class Ensure(OwnedRequest[None], frozen=True):
    capability, method = "topics", "ensure"
    name: str

    async def carry_out(self, broker: Broker) -> None:
        await broker.ensure_topic(self.name)


class Alter(OwnedRequest[Topic], frozen=True):
    capability, method = "topics", "alter"
    name: str
    settings: dict[str, Any]

    async def carry_out(self, broker: Broker) -> Topic:
        return await broker.alter_topic(self.name, self.settings)


class AddPartitions(OwnedRequest[tuple[int, int]], frozen=True):
    capability, method = "topics", "add_partitions"
    name: str
    count: int

    async def carry_out(self, broker: Broker) -> tuple[int, int]:
        return await broker.add_partitions(self.name, self.count)


class Delete(OwnedRequest[None], frozen=True):
    capability, method = "topics", "delete"
    name: str

    async def carry_out(self, broker: Broker) -> None:
        await broker.delete_topic(self.name)


TOPIC_CHANGES = (Create, Ensure, Alter, AddPartitions, Delete)


class Prepare(PeerRequest[None], frozen=True):
    """Of an owner: it opens its partitions of a topic as that is going to be."""

    capability, method = "topics", "prepare"
    topic: Topic


class TakeBack(PeerRequest[None], frozen=True):
    """The topic stays as it is."""

    capability, method = "topics", "take_back"
    topic_id: int


class Opened(PeerRequest[None], frozen=True):
    """It has opened its partitions of a topic that is new or has changed."""

    capability, method = "topics", "opened"
    topic_id: int


class Ended(PeerRequest[None], frozen=True):
    """It does not work on a deleted topic any more."""

    capability, method = "topics", "ended"
    topic_id: int


class Purge(PeerRequest[None], frozen=True):
    """Its partitions, as the calls that follow."""

    capability, method = "topics", "purge"
    name: str


class Compact(PeerRequest[dict[int, Compacted]], frozen=True):
    capability, method = "topics", "compact"
    name: str
    partitions: list[int]
    dry_run: bool


class Describe(PeerRequest[list[PartitionDetails]], frozen=True):
    capability, method = "topics", "describe"
    name: str


class Stats(PeerRequest[OwnStats], frozen=True):
    capability, method = "topics", "stats"
