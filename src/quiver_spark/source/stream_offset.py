"""The position of a query: the id of each topic and the next offset of every partition, as JSON. Pure.

`{"orders": {"id": 7, "0": 4711, "1": 4690}}`. The id tells a topic from a later one with the same name, whose
offsets mean something else.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

_ID = "id"


class TopicProgress(NamedTuple):
    """How far a query has come in a topic."""

    id: int
    next: dict[int, int]
    """By partition."""


StreamOffset = dict[str, TopicProgress]
"""By topic."""


def parse_offset(offset: Mapping[str, Mapping[str, int]]) -> StreamOffset:
    return {
        name: TopicProgress(int(parts[_ID]), {int(key): int(value) for key, value in parts.items() if key != _ID})
        for name, parts in offset.items()
    }


def offset_json(offset: StreamOffset) -> dict[str, Any]:
    """Equal offsets are equal as text, because that is how Spark compares them."""
    return {
        name: {_ID: place.id, **{str(number): place.next[number] for number in sorted(place.next)}}
        for name, place in sorted(offset.items())
    }
