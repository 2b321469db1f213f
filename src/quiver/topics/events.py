"""What can happen to the catalogue: the records of the metadata journal, as JSON."""

import msgspec

from quiver.model.names import TopicId
from quiver.model.topic import Topic, TopicConfig
from quiver.storage.journaled_state import EventCodec


class TopicCreated(msgspec.Struct, frozen=True, tag="topic_created"):
    topic: Topic


class TopicChanged(msgspec.Struct, frozen=True, tag="topic_changed"):
    id: TopicId
    config: TopicConfig


class TopicDeleted(msgspec.Struct, frozen=True, tag="topic_deleted"):
    """The topic is gone for users; its files are not yet."""

    id: TopicId


class TopicFilesRemoved(msgspec.Struct, frozen=True, tag="topic_files_removed"):
    id: TopicId


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer_ids_reserved"):
    """Ids below this one may have been given out."""

    upper: int


class ProducerEpochGiven(msgspec.Struct, frozen=True, tag="producer_epoch_given"):
    """The producer of an id may use this epoch, and those before it."""

    producer_id: int
    epoch: int


class NodeNamed(msgspec.Struct, frozen=True, tag="node_named"):
    """The id this data directory has for ever."""

    node_id: str


Event = (
    TopicCreated
    | TopicChanged
    | TopicDeleted
    | TopicFilesRemoved
    | ProducerIdsReserved
    | ProducerEpochGiven
    | NodeNamed
)

CODEC: EventCodec[Event] = EventCodec(msgspec.json.encode, msgspec.json.Decoder(Event).decode)
