"""Requests and responses of the native protocol, version 1.

Each is a MessagePack array that begins with its tag; new fields are only ever added at the end, with defaults.
Frames follow the message as raw payload and are never inside it.
"""

from typing import Any

import msgspec

from quiver.model.position import Position
from quiver.protocol.compaction_messages import CompactionRequest, CompactionResponse
from quiver.protocol.dead_letter_messages import DeadLetterRequest, DeadLetterResponse
from quiver.protocol.delay_messages import DelayRequest, DelayResponse
from quiver.protocol.group_messages import GroupRequest, GroupResponse
from quiver.protocol.life_messages import LifeRequest, LifeResponse
from quiver.protocol.message import Message as Message
from quiver.protocol.queue_messages import QueueRequest, QueueResponse
from quiver.protocol.schedule_messages import ScheduleRequest, ScheduleResponse
from quiver.protocol.search_messages import SearchRequest, SearchResponse
from quiver.protocol.transaction_messages import TransactionRequest, TransactionResponse

PROTOCOL_VERSION = 1
CODECS = ("none", "lz4", "zstd")
ENCODINGS = ("arrow",)

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


class Hello(Message, tag=0, frozen=True):
    versions: list[int]
    codecs: list[str]
    encodings: list[str]
    client: str = ""
    worker: int = -1
    """The worker that the connection is for; -1: any."""


class GetMetadata(Message, tag=1, frozen=True):
    topics: list[str] | None = None
    """None asks for all topics."""
    with_replicas: bool = False
    """Whether the response says which nodes have the partitions."""


class Produce(Message, tag=2, frozen=True):
    """Payload: one frame. With ACKS_NONE there is no response, not even for an error."""

    topic_id: int
    partition: int
    partition_count: int
    """The count the producer hashed by; 0 when the partition was chosen explicitly or without a key."""
    acks: int = ACKS_ALL


class FetchPart(msgspec.Struct, array_like=True, frozen=True):
    topic_id: int
    partition: int
    offset: int
    max_bytes: int


class Fetch(Message, tag=3, frozen=True):
    parts: list[FetchPart]
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 16 * 1024 * 1024
    read_committed: bool = True
    headers_only: bool = False
    """The payload has the headers of the frames one after the other, without bodies."""
    nearest: bool = False
    """A node of a cluster may send what its replica has, instead of what the leader sends."""


class OffsetPart(msgspec.Struct, array_like=True, frozen=True):
    topic_id: int
    partition: int
    position: Position


class ListOffsets(Message, tag=4, frozen=True):
    parts: list[OffsetPart]
    read_committed: bool = True
    """Whether `latest` is where the first open transaction begins."""


class InitProducer(Message, tag=5, frozen=True):
    """A new producer id, or with `producer_id` the next epoch of that one."""

    producer_id: int = -1
    epoch: int = -1


class CreateTopic(Message, tag=6, frozen=True):
    name: str
    settings: dict[str, Any]


class DescribeTopic(Message, tag=7, frozen=True):
    name: str


class AlterTopic(Message, tag=8, frozen=True):
    name: str
    settings: dict[str, Any]


class DeleteTopic(Message, tag=9, frozen=True):
    name: str


class AddPartitions(Message, tag=10, frozen=True):
    name: str
    count: int
    """The new total."""


class PurgeTopic(Message, tag=11, frozen=True):
    name: str


class Ping(Message, tag=12, frozen=True):
    pass


Request = (
    Hello
    | GetMetadata
    | Produce
    | Fetch
    | ListOffsets
    | InitProducer
    | CreateTopic
    | DescribeTopic
    | AlterTopic
    | DeleteTopic
    | AddPartitions
    | PurgeTopic
    | Ping
    | GroupRequest
    | QueueRequest
    | ScheduleRequest
    | DeadLetterRequest
    | DelayRequest
    | CompactionRequest
    | LifeRequest
    | TransactionRequest
    | SearchRequest
)


class Failure(Message, tag=100, frozen=True):
    code: str
    message: str
    retryable: bool = False


class Welcome(Message, tag=101, frozen=True):
    version: int
    node_id: str
    codecs: list[str]
    encodings: list[str]
    max_request_bytes: int
    max_frame_bytes: int
    max_message_bytes: int
    software: str = ""
    http_port: int = 0
    """Where the same broker listens for HTTP, on the host that the client has connected to; 0: nowhere."""
    worker: int = 0
    """The worker that serves the connection."""
    workers: int = 1


class TopicInfo(msgspec.Struct, array_like=True, frozen=True):
    id: int
    name: str
    partitions: int
    max_message_bytes: int
    partition_workers: tuple[int, ...] = ()
    """The worker that owns each partition; empty: the broker has one worker."""
    units: tuple[int, ...] = ()
    """The unit of each partition, if the response has units."""


class NodeInfo(msgspec.Struct, array_like=True, frozen=True):
    """A node of a cluster, and where clients reach it."""

    node: str
    host: str
    port: int
    http_port: int
    rack: str = ""


class UnitInfo(msgspec.Struct, array_like=True, frozen=True):
    """Who has the partitions of a unit, by the ids of nodes."""

    leader: str
    """Empty: nobody, for the moment."""
    replicas: tuple[str, ...] = ()
    in_sync: tuple[str, ...] = ()
    """Replicas that have everything."""


class Metadata(Message, tag=102, frozen=True):
    topics: list[TopicInfo]
    missing: list[str]
    nodes: tuple[NodeInfo, ...] = ()
    """Those of a cluster that are alive, if they were asked for."""
    units: dict[int, UnitInfo] = msgspec.field(default_factory=dict)
    """The same, by unit."""


class Produced(Message, tag=103, frozen=True):
    base_offset: int
    append_time_ms: int
    duplicate: bool = False
    delayed: bool = False
    """The frame holds delayed messages: its offsets are their ids, and they enter the topic when they are due."""
    duplicates: tuple[tuple[int, int, bool], ...] = ()
    """Messages that were not stored because their id was known, by place in the frame: the place, the offset of the
    first message with the id (-1: not known any more), and whether that is a delayed message's id. The others have
    the base offset and those after it."""
    buffered: bool = False
    """The database is away: the frame is in the broker's local buffer, and is stored when the database is back."""


class FetchedPart(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Payload bytes of the parts follow each other in the order of the parts."""

    topic_id: int
    partition: int
    length: int
    log_start: int
    high_watermark: int
    last_stable: int
    epoch: int
    aborted: list[tuple[int, int]]
    """(producer id, first offset) of aborted transactions that reach into the range of the response, by first offset.
    Frames of the producer do not count from there up to its next control frame."""
    error: Failure | None = None
    ttl_ms: int | None = None
    """Of the topic, for messages that have no `expires_at` of their own."""
    removed_count: int | None = None
    """With an offset below the log's start: how many messages were there, up to `log_start`."""
    headers_only: bool = False
    """Whether the payload has headers without bodies: an older broker ignores that field of the request."""


class Fetched(Message, tag=104, frozen=True):
    parts: list[FetchedPart]
    now_ms: int = 0
    """The broker's time: frames hold messages that are past their time to live, and readers leave those out."""


class FoundOffset(msgspec.Struct, array_like=True, frozen=True):
    offset: int
    error: Failure | None = None


class Offsets(Message, tag=105, frozen=True):
    offsets: list[FoundOffset]
    """In the order of the request."""


class ProducerIdentity(Message, tag=106, frozen=True):
    producer_id: int
    epoch: int


class TopicDescription(Message, tag=107, frozen=True):
    id: int
    name: str
    created_at_ms: int
    settings: dict[str, Any]
    size_bytes: int
    offsets: list[tuple[int, int]]
    """Per partition: earliest, and the next offset to be written."""
    message_count: int = 0
    """Messages that are stored; compaction leaves offsets empty."""
    compacted_to: tuple[int, ...] = ()
    """Per partition: below this offset each key is there once. Empty where the topic is not compacted."""


class Done(Message, tag=108, frozen=True):
    pass


Response = (
    Failure
    | Welcome
    | Metadata
    | Produced
    | Fetched
    | Offsets
    | ProducerIdentity
    | TopicDescription
    | Done
    | GroupResponse
    | QueueResponse
    | ScheduleResponse
    | DeadLetterResponse
    | DelayResponse
    | CompactionResponse
    | LifeResponse
    | TransactionResponse
    | SearchResponse
)
