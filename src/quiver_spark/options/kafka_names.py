"""The names that Kafka's source and sink for Spark have for our options, and how their values become ours.

docs/spark-sink.md has the table for users.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import whole_number
from quiver.model.times import format_time, parse_time_ms

_PLACES = {-1: "latest", -2: "earliest"}
"""What Kafka writes instead of an offset."""


def _same(text: str, name: str) -> str:
    return text


class KafkaName(NamedTuple):
    ours: str
    """The option that it stands for."""
    converted: Callable[[str, str], str] = _same
    """Our value for Kafka's, given the name for errors."""


def _offsets(text: str, name: str) -> str:
    """`earliest`, `latest`, or JSON in which -1 means latest and -2 earliest."""
    if not text.startswith("{"):
        return text
    return _by_partition(text, name, lambda value: _PLACES.get(value, value) if isinstance(value, int) else value)


def _time(text: str, name: str) -> str:
    """Epoch milliseconds as a time: a number alone would be an offset."""
    if not text:
        return ""
    number = whole_number(text)
    if number is None:
        raise InvalidRequest(problem=f"option {name!r}: {text!r} is not a time in epoch milliseconds")
    return format_time(parse_time_ms(number, f"option {name!r}"))


def _times(text: str, name: str) -> str:
    return _by_partition(text, name, lambda value: _time(str(value), name)) if text else ""


def _by_partition(text: str, name: str, converted: Callable[[Any], Any]) -> str:
    """JSON `{"orders": {"0": value}}` with each value converted."""
    try:
        given = json.loads(text)
        found = {topic: {part: converted(value) for part, value in parts.items()} for topic, parts in given.items()}
    except (ValueError, AttributeError):
        raise InvalidRequest(
            problem=f'option {name!r} is not JSON of the form {{"orders": {{"0": 17}}}}: {text!r}'
        ) from None
    return json.dumps(found)


def _milliseconds(text: str, name: str) -> str:
    return f"{text}ms" if text else ""


READ_NAMES: dict[str, KafkaName] = {
    "subscribe": KafkaName("topics"),
    "subscribePattern": KafkaName("topicPattern"),
    "assign": KafkaName("partitions"),
    "startingOffsets": KafkaName("start", _offsets),
    "startingTimestamp": KafkaName("start", _time),
    "startingOffsetsByTimestamp": KafkaName("start", _times),
    "startingOffsetsByTimestampStrategy": KafkaName("startTimeStrategy"),
    "endingOffsets": KafkaName("end", _offsets),
    "endingTimestamp": KafkaName("end", _time),
    "endingOffsetsByTimestamp": KafkaName("end", _times),
    "maxOffsetsPerTrigger": KafkaName("maxRowsPerTrigger"),
    "minOffsetsPerTrigger": KafkaName("minRowsPerTrigger"),
    "maxRecordsPerPartition": KafkaName("maxRowsPerPartition"),
    "kafka.bootstrap.servers": KafkaName("bootstrap"),
    "kafka.group.id": KafkaName("followGroup"),
    "kafka.isolation.level": KafkaName("isolation"),
    "kafka.fetch.max.bytes": KafkaName("fetchBytes"),
    "kafka.request.timeout.ms": KafkaName("timeout", _milliseconds),
}
WRITE_NAMES: dict[str, KafkaName] = {
    "kafka.bootstrap.servers": KafkaName("bootstrap"),
    "kafka.compression.type": KafkaName("compression"),
    "kafka.transaction.timeout.ms": KafkaName("transactionTimeout", _milliseconds),
    "kafka.request.timeout.ms": KafkaName("timeout", _milliseconds),
}
