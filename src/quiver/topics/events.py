"""What can happen to the catalogue, as keys of coordination say it. Values are JSON."""

import msgspec

from quiver.coordination.port import Change
from quiver.model.names import TopicId
from quiver.model.topic import Topic

TOPICS = "topics/"
"""By name: a topic that is there."""
DELETED = "deleted-topics/"
"""By id: a topic that is gone for users; its files may not be."""
NEXT_ID = "counters/topic-id"
NODE_ID = "node/id"
PREFIXES = (TOPICS, DELETED, NEXT_ID, NODE_ID)


class TopicStored(msgspec.Struct, frozen=True):
    """The topic is new, or has other settings."""

    topic: Topic


class TopicGone(msgspec.Struct, frozen=True):
    name: str


class FilesLeft(msgspec.Struct, frozen=True):
    topic: Topic


class FilesRemoved(msgspec.Struct, frozen=True):
    id: TopicId


class IdsGiven(msgspec.Struct, frozen=True):
    """Ids below this one were given to topics."""

    upper: int


class NodeNamed(msgspec.Struct, frozen=True):
    """The id this data has for ever."""

    node_id: str


Event = TopicStored | TopicGone | FilesLeft | FilesRemoved | IdsGiven | NodeNamed

_TOPIC = msgspec.json.Decoder(Topic)


def topic_key(name: str) -> str:
    return TOPICS + name


def deleted_key(topic_id: int) -> str:
    return f"{DELETED}{topic_id}"


def event_of(change: Change) -> Event:
    """What the change of a key with one of the PREFIXES means."""
    key, value = change.key, change.value
    if key.startswith(TOPICS):
        return TopicGone(key.removeprefix(TOPICS)) if value is None else TopicStored(_TOPIC.decode(value))
    if key.startswith(DELETED):
        topic_id = TopicId(int(key.removeprefix(DELETED)))
        return FilesRemoved(topic_id) if value is None else FilesLeft(_TOPIC.decode(value))
    return IdsGiven(int(value or b"1")) if key == NEXT_ID else NodeNamed((value or b"").decode())
