"""What is asked of the owner of a partition, and of the worker that gives out producer ids."""

import msgspec

from quiver.links.request import PeerRequest
from quiver.messages.browse import MessagePage
from quiver.messages.fetch import FetchOptions, FetchPart
from quiver.model.message import NewMessage
from quiver.model.position import Position
from quiver.partition.pending import Appended
from quiver.protocol.link_messages import LinkFailure


class Produce(PeerRequest[Appended], frozen=True):
    """The frame is the payload."""

    capability, method = "messages", "produce"
    topic_id: int
    partition: int
    partition_count: int
    alone: bool = False
    """The caller does not wait for other replicas."""


class ChosenMessage(msgspec.Struct, frozen=True, array_like=True):
    topic_id: int
    partition: int
    message: NewMessage


class PublishOutcome(msgspec.Struct, frozen=True, array_like=True):
    """One of the two."""

    appended: Appended | None
    failure: LinkFailure | None = None


class Publish(PeerRequest[list[PublishOutcome]], frozen=True):
    """Single messages, of one turn of the loop."""

    capability, method = "messages", "publish"
    messages: list[ChosenMessage]


class PartFound(msgspec.Struct, frozen=True, array_like=True):
    """A fetched part; `length` bytes of the payload are its slice."""

    length: int | None
    end_offset: int
    log_start: int
    high_watermark: int
    last_stable: int
    epoch: int
    aborted: tuple[tuple[int, int], ...]
    error: LinkFailure | None
    ttl_ms: int | None
    removed_count: int | None


class Fetch(PeerRequest[list[PartFound]], frozen=True):
    capability, method, only_waits = "messages", "fetch", True
    parts: list[FetchPart]
    options: FetchOptions


class FindOffset(PeerRequest[int], frozen=True):
    capability, method = "messages", "find_offset"
    topic_id: int
    partition: int
    position: Position
    read_committed: bool


class FindId(PeerRequest[int | None], frozen=True):
    capability, method = "messages", "find_id"
    topic_id: int
    partition: int
    id: bytes


class Read(PeerRequest[MessagePage], frozen=True):
    """The fields of BrowseRequest that can be sent."""

    capability, method = "messages", "read"
    topic: str
    partition: int
    offset: int | None
    limit: int
    from_time_ms: int | None
    to_time_ms: int | None
    read_committed: bool
    include_expired: bool
    max_bytes: int


class InitProducer(PeerRequest[tuple[int, int]], frozen=True):
    capability, method = "producers", "init"
    producer_id: int
    epoch: int


class WasGiven(PeerRequest[bool], frozen=True):
    """Whether an epoch of a producer was given out."""

    capability, method = "producers", "was_given"
    producer_id: int
    epoch: int
