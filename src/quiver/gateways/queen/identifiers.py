"""The ids that clients get and send back. Each says by itself what it names, also after a restart."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from quiver.system.randomness import SystemRandomness

_PARTITION_ID = re.compile(r"([0-9a-f]{1,8})(?:-([A-Za-z0-9_-]{0,800}))?", re.ASCII)
_LEASE_ID = re.compile(r"[0-9a-f]{1,16}(?:\.[0-9a-f]{1,16}){3,3000}", re.ASCII)
_MESSAGE_ID = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})", re.ASCII)
_REMEMBERED = 10_000


class PartitionKey(NamedTuple):
    """A partition of a queue: the messages of a topic that have this key."""

    topic_id: int
    key: bytes | None
    """None: messages that somebody published without a key."""


class LeasePlace(NamedTuple):
    topic_id: int
    partition: int
    lease_id: int


class LeaseId(NamedTuple):
    """What one pop leased: a lease in each partition of the broker that it took messages from."""

    group_id: int
    places: tuple[LeasePlace, ...]

    def __str__(self) -> str:
        return f"{self.group_id:x}" + "".join(f".{t:x}.{p:x}.{lease:x}" for t, p, lease in self.places)


class MessagePlace(NamedTuple):
    topic_id: int
    partition: int
    offset: int


@lru_cache(maxsize=_REMEMBERED)
def partition_id(topic_id: int, key: bytes | None) -> str:
    if key is None:
        return f"{topic_id:x}"
    return f"{topic_id:x}-{urlsafe_b64encode(key).rstrip(b'=').decode()}"


@lru_cache(maxsize=_REMEMBERED)
def parse_partition_id(text: str) -> PartitionKey | None:
    """None for what cannot be one."""
    found = _PARTITION_ID.fullmatch(text)
    if found is None:
        return None
    if found[2] is None:
        return PartitionKey(int(found[1], 16), None)
    try:
        key = urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4))
    except (NotBase64, ValueError):
        return None
    return PartitionKey(int(found[1], 16), key)


def parse_lease_id(text: str) -> LeaseId | None:
    """None for what cannot be one."""
    if _LEASE_ID.fullmatch(text) is None:
        return None
    group_id, *numbers = (int(part, 16) for part in text.split("."))
    if len(numbers) % 3:
        return None
    places = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return LeaseId(group_id, tuple(LeasePlace(*place) for place in places))


def message_id(topic_id: int, partition: int, offset: int) -> str:
    """In the form of a UUID."""
    return f"{_id_front(topic_id, partition, offset >> 48)}{offset & 0xFFFF_FFFF_FFFF:012x}"


@lru_cache(maxsize=_REMEMBERED)
def _id_front(topic_id: int, partition: int, offset_high: int) -> str:
    return f"{topic_id:08x}-{partition >> 16:04x}-{partition & 0xFFFF:04x}-{offset_high:04x}-"


def parse_message_id(text: str) -> MessagePlace | None:
    """None for what cannot be one."""
    found = _MESSAGE_ID.fullmatch(text)
    if found is None:
        return None
    topic_id, upper, lower, high, low = (int(part, 16) for part in found.groups())
    return MessagePlace(topic_id, upper << 16 | lower, high << 48 | low)


def queue_id(topic_id: int) -> str:
    """In the form of a UUID."""
    return f"{topic_id:08x}-0000-0000-0000-000000000000"


def random_id() -> str:
    """A UUID."""
    return str(UUID(bytes=SystemRandomness().token(16), version=4))
