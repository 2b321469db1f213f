"""Which partitions of its topics a read takes, if not all."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from quiver.model.errors import InvalidRequest

_FORM = 'numbers such as 0,2, or JSON by topic: {"orders": [0, 2]}'


class PartitionChoice(NamedTuple):
    everywhere: frozenset[int] = frozenset()
    """Of every topic that is read; used when `by_topic` is empty."""
    by_topic: tuple[tuple[str, frozenset[int]], ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it names itself."""
        return tuple(topic for topic, _ in self.by_topic)

    def has(self, topic: str, partition: int) -> bool:
        chosen = dict(self.by_topic).get(topic, frozenset()) if self.by_topic else self.everywhere
        return partition in chosen

    def check(self, partitions: Mapping[str, int]) -> None:
        """Raises InvalidRequest for a partition that does not exist; `partitions` has their number by topic."""
        for topic, count in partitions.items():
            chosen = dict(self.by_topic).get(topic, frozenset()) if self.by_topic else self.everywhere
            if chosen and max(chosen) >= count:
                raise InvalidRequest(
                    problem=f"option 'partitions' names partition {max(chosen)} of {topic}, which has {count}"
                )


def parse_partitions(text: str, name: str) -> PartitionChoice:
    try:
        if text.startswith("{"):
            given = json.loads(text)
            return PartitionChoice(by_topic=tuple((topic, _numbers(parts)) for topic, parts in given.items()))
        return PartitionChoice(_numbers([int(part) for part in text.split(",")]))
    except (ValueError, TypeError):
        raise InvalidRequest(problem=f"option {name!r}: {text!r} is not {_FORM}") from None


def _numbers(parts: list[int]) -> frozenset[int]:
    if not parts or not all(type(part) is int and part >= 0 for part in parts):
        raise ValueError
    return frozenset(parts)
