"""Where a read starts or ends in each partition, parsed from an option."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.position import Position, parse_position

_FORM = 'one place such as earliest, latest, 17, -1d or 2026-01-31T12:00:00Z, or JSON: {"0": 17, "1": "latest"}'


class PartitionPositions(NamedTuple):
    """A position for every partition, and others for some."""

    everywhere: Position
    exceptions: tuple[tuple[str | None, int, Position], ...] = ()
    """(topic or any, partition, position); the first that fits counts"""

    def at(self, topic: str, partition: int) -> Position:
        for name, number, position in self.exceptions:
            if number == partition and name in (None, topic):
                return position
        return self.everywhere

    def check(self, partitions: Mapping[str, int], what: str) -> None:
        """Raises InvalidRequest if a position is for a topic that is not read or for a partition that does not exist.

        `partitions` has the number of partitions of each topic that is read.
        """
        read = ", ".join(sorted(partitions)) or "no topic"
        for topic, number, _ in self.exceptions:
            if topic is not None and topic not in partitions:
                raise InvalidRequest(problem=f"option {what!r} names the topic {topic!r}, and what is read is {read}")
            last = (partitions[topic] if topic is not None else max(partitions.values(), default=0)) - 1
            if number > last:
                there = f"{topic or read} has only partition 0" if last == 0 else f"{topic or read}: 0 to {last}"
                raise InvalidRequest(
                    problem=f"option {what!r} names partition {number}, which does not exist; {there}"
                )


def parse_positions(text: str, default: Position, now_ms: int, what: str) -> PartitionPositions:
    """One position, or JSON by partition or by topic and partition; partitions that JSON leaves out get `default`."""
    if not text.startswith("{"):
        return PartitionPositions(_position(text, now_ms, what))
    try:
        given = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(problem=f"option {what!r} is not JSON ({error}); it takes {_FORM}") from None
    exceptions: list[tuple[str | None, int, Position]] = []
    for name, value in given.items():
        if isinstance(value, dict):
            exceptions += [(name, *_place(part, place, now_ms, what)) for part, place in value.items()]
        else:
            exceptions.append((None, *_place(name, value, now_ms, what)))
    exceptions.sort(key=lambda exception: exception[0] is None)
    return PartitionPositions(default, tuple(exceptions))


def _place(partition: str, value: Any, now_ms: int, what: str) -> tuple[int, Position]:
    if not partition.isdigit():
        raise InvalidRequest(problem=f"option {what!r}: {partition!r} is not a partition; it takes {_FORM}")
    return int(partition), _position(value, now_ms, what)


def _position(value: Any, now_ms: int, what: str) -> Position:
    """A negative number is not a time ago: elsewhere -2 means earliest, and seconds are written as -2s."""
    if str(value).startswith("-") and str(value)[1:].isdigit():
        raise InvalidRequest(
            problem=f"option {what!r}: {value} is not an offset; write earliest or latest, or a time ago with its"
            f" unit ({value}s)"
        )
    return parse_position(value, now_ms, f"option {what!r}")
