"""Names of topics and groups, the ids of topics and partitions, and epochs."""

import re
from typing import NamedTuple, NewType

from quiver.model.errors import InvalidName
from quiver.model.limits import NAME_LENGTH

TopicId = NewType("TopicId", int)
Offset = NewType("Offset", int)

StartEpoch = NewType("StartEpoch", int)
"""Rises with every start of a process on its data. Ids that must be unique per process (leases) contain it."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Rises whenever a unit (a partition with its logs, or a journal) gets a leader. Frames carry it, and logs refuse an
older one. A type of its own, because the two epochs are easily mistaken for each other."""

NAME_PATTERN = f"[A-Za-z0-9._-]{{1,{NAME_LENGTH}}}"
_NAME = re.compile(NAME_PATTERN)


class TopicPartition(NamedTuple):
    """A partition by the id of its topic and its number."""

    topic_id: int
    partition: int


def is_internal(topic: str) -> bool:
    """Whether a topic is the broker's own, such as __traces: listings for people leave it out."""
    return topic.startswith("__")


def sole_leader_epoch(start: StartEpoch) -> LeaderEpoch:
    """The leader epoch of every unit when one process has the data directory to itself: it leads them all since its
    start."""
    return LeaderEpoch(start)


def check_name(name: object, kind: str = "topic") -> str:
    """Returns the name, or raises InvalidName. Files are named by id, so the name never reaches the file system."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
        shown = name if isinstance(name, str) and len(name) <= 300 else str(name)[:300]
        raise InvalidName(name=shown, kind=kind)
    return name
