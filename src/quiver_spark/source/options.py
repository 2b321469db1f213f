"""The options of the source: names in any case, checked before anything is read."""

import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.limits import KIB, MIB
from quiver.model.names import NAME_PATTERN, check_name
from quiver.model.position import EARLIEST, LATEST
from quiver_spark.options.kafka_names import READ_NAMES
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP, OptionMap
from quiver_spark.options.partition_choice import PartitionChoice, parse_partitions
from quiver_spark.source.positions import PartitionPositions, parse_positions

READ_OPTIONS = (
    "bootstrap",
    "path",
    "topic",
    "topics",
    "topicPattern",
    "partitions",
    "internal",
    "start",
    "startTimeStrategy",
    "end",
    "isolation",
    "includeHeaders",
    "valueSchema",
    "maxRowsPerTrigger",
    "minRowsPerTrigger",
    "maxTriggerDelay",
    "maxRowsPerPartition",
    "minPartitions",
    "parallelism",
    "followGroup",
    "groupIdPrefix",
    "failOnDataLoss",
    "timeout",
    "fetchBytes",
    "localFiles",
)
_NAMING = ("topic", "topics", "topicPattern")
_OF_STREAMS = ("maxRowsPerTrigger", "minRowsPerTrigger", "maxTriggerDelay", "followGroup", "groupIdPrefix")
_OF_KAFKAS_BATCHES = ("kafka.group.id", "groupIdPrefix")
"""Names of options for streams that Kafka's source also takes for batches: they do nothing there."""
_ISOLATIONS = ("read_committed", "read_uncommitted")
_TIME_STRATEGIES = ("latest", "error")
_MOST_ROWS = 2**62


class ReadOptions(NamedTuple):
    """Which messages are read, from where and how. Sent to the workers."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    path: str | None = None
    """A data directory: its segment files are read without a broker."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: PartitionChoice | None = None
    """None: all of them."""
    internal: str | None = None
    """Which internal log is read instead of messages; direct reads only."""
    start: PartitionPositions = PartitionPositions(EARLIEST)
    end: PartitionPositions | None = None
    """None: the latest of a batch; a stream has no end."""
    fails_after_last: bool = False
    """Whether a start time after the last message of a partition is an error. Otherwise it is the latest."""
    committed: bool = True
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    parallelism: int | None = None
    """How many tasks can run at once; None: as many as the machine that plans has cores."""
    max_rows_per_partition: int | None = None
    """Of Spark's partitions, which are tasks."""
    max_rows_per_trigger: int | None = None
    min_rows_per_trigger: int = 1
    max_trigger_delay_seconds: float = 900.0
    """How long a stream waits for `min_rows_per_trigger`."""
    follow_group: str | None = None
    """The group of the broker that gets the position of a stream."""
    timeout_seconds: float = 30.0
    """How long to wait for a broker that does not respond."""
    fetch_bytes: int = 8 * MIB
    local_files: bool = True
    """Whether tasks on the machine of the broker read its files."""

    def check_positions(self, partitions: Mapping[str, int]) -> None:
        """Raises InvalidRequest if start or end names what is not among the topics that are read and their
        partitions."""
        if self.partitions is not None:
            self.partitions.check(partitions)
        self.start.check(partitions, "start")
        if self.end is not None:
            self.end.check(partitions, "end")

    def reads(self, topic: str, partition: int) -> bool:
        """Whether a partition of a topic that is read is read too."""
        return self.partitions is None or self.partitions.has(topic, partition)


def read_options(options: Mapping[str, str], *, now_ms: int, streaming: bool | None = False) -> ReadOptions:
    """The options of a read, checked. A time ago such as -1h counts from `now_ms`.

    `streaming` is None where it is not known yet whether it is a stream.
    """
    given = OptionMap(options, READ_OPTIONS, "reading", READ_NAMES)
    partitions = None
    if (text := given.text("partitions")) is not None:
        partitions = parse_partitions(text, given.given_as("partitions"))
    _check_topics(given, partitions)
    if streaming is not None:
        _check_use(given, streaming=streaming)
    end = given.text("end")
    defaults = ReadOptions()
    return ReadOptions(
        bootstrap=given.address(),
        path=given.text("path"),
        topics=_topics(given, partitions),
        pattern=given.text("topicPattern"),
        partitions=partitions,
        internal=given.text("internal"),
        start=parse_positions(given.text("start") or "earliest", EARLIEST, now_ms, given.given_as("start")),
        end=None if end is None else parse_positions(end, LATEST, now_ms, given.given_as("end")),
        fails_after_last=given.choice("startTimeStrategy", _TIME_STRATEGIES) == "error",
        committed=given.choice("isolation", _ISOLATIONS) == "read_committed",
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        min_partitions=given.whole("minPartitions", 1, 1_000_000),
        parallelism=given.whole("parallelism", 1, 1_000_000),
        max_rows_per_partition=given.whole("maxRowsPerPartition", 1, _MOST_ROWS),
        max_rows_per_trigger=given.whole("maxRowsPerTrigger", 1, _MOST_ROWS),
        min_rows_per_trigger=given.whole("minRowsPerTrigger", 1, _MOST_ROWS) or 1,
        max_trigger_delay_seconds=given.milliseconds("maxTriggerDelay", "15m") / 1000,
        follow_group=_followed(given),
        timeout_seconds=given.milliseconds("timeout", "30s") / 1000,
        fetch_bytes=given.whole("fetchBytes", 64 * KIB, 64 * MIB) or defaults.fetch_bytes,
        local_files=given.flag("localFiles", True),
    )


class ColumnOptions(NamedTuple):
    """What the columns of a read without a schema depend on."""

    headers: bool
    value_schema: str | None


def column_options(options: Mapping[str, str]) -> ColumnOptions:
    given = OptionMap(options, READ_OPTIONS, "reading", READ_NAMES)
    return ColumnOptions(given.flag("includeHeaders", True), given.text("valueSchema"))


def _check_use(given: OptionMap, *, streaming: bool) -> None:
    """Raises InvalidRequest for an option of streams in a batch, and the other way round."""
    if streaming and given.text("end") is not None:
        raise InvalidRequest(
            problem=f"option {given.given_as('end')!r} is for batch reads; a stream has none, or stops with"
            " availableNow"
        )
    for name in () if streaming else _OF_STREAMS:
        shown = given.given_as(name)
        if given.text(name) is not None and shown not in _OF_KAFKAS_BATCHES:
            raise InvalidRequest(problem=f"option {shown!r} is for streams; a batch reads from start to end")
    least, most = given.whole("minRowsPerTrigger", 1, _MOST_ROWS), given.whole("maxRowsPerTrigger", 1, _MOST_ROWS)
    if least is not None and most is not None and least > most:
        raise InvalidRequest(
            problem=f"option {given.given_as('minRowsPerTrigger')!r} is {least}, which is more than"
            f" {given.given_as('maxRowsPerTrigger')!r}, {most}"
        )


def _followed(given: OptionMap) -> str | None:
    """The group that follows a stream: by its name, or named after a prefix and what is read."""
    name, prefix = given.text("followGroup"), given.text("groupIdPrefix")
    if name is not None and prefix is not None:
        shown = given.given_as("followGroup")
        raise InvalidRequest(problem=f"options {shown!r} and 'groupIdPrefix' both name a group: give one of them")
    if (name or prefix) and given.text("path") is not None:
        shown = given.given_as("followGroup") if name else "groupIdPrefix"
        raise InvalidRequest(problem=f"option {shown!r} needs a broker, and 'path' reads files without one")
    if prefix is not None:
        read = [given.text(each) for each in ("topic", "topics", "topicPattern", "partitions")]
        text = next(each for each in read if each)
        is_name = re.fullmatch(NAME_PATTERN, text) is not None
        name = f"{prefix}-{text if is_name else format(zlib.crc32(text.encode()), '08x')}"
    return None if name is None else check_name(name, "group")


def _topics(given: OptionMap, partitions: PartitionChoice | None) -> tuple[str, ...]:
    """An internal log that belongs to no topic is read under its own name."""
    internal = given.text("internal")
    if internal is not None and "/" in internal:
        return (internal,)
    text = given.text("topic") or given.text("topics") or ""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if partitions is not None:
        names += partitions.topics
    return tuple(dict.fromkeys(check_name(name) for name in names))


def _check_topics(given: OptionMap, partitions: PartitionChoice | None) -> None:
    """One way of naming what is read, and one place to read it from."""
    named = [given.given_as(name) for name in _NAMING if given.text(name) is not None]
    if partitions is not None and partitions.topics:
        named.append(given.given_as("partitions"))
    internal = given.text("internal")
    if internal is not None and given.text("path") is None:
        raise InvalidRequest(
            problem="option 'internal' reads a log of the broker's own: name its data directory (path)"
        )
    if internal is not None and "/" in internal:
        if named:
            raise InvalidRequest(problem=f"option 'internal' {internal!r} names a log; leave {named[0]!r} out")
        return
    if given.is_empty:
        raise InvalidRequest(
            problem="there are no options. If this is a table made by CREATE TABLE: Spark does not pass its options"
            " on; use CREATE TEMPORARY VIEW name USING quiver OPTIONS (bootstrap 'host:7481', topic 'orders')."
            " Otherwise name what to read by one of the options topic, topics (a,b,c) and topicPattern"
        )
    if len(named) != 1:
        problem = "name what to read by one of the options topic, topics (a,b,c) and topicPattern"
        raise InvalidRequest(problem=problem if not named else f"{problem}, not {' and '.join(named)}")
    if given.text("path") is not None and given.text("bootstrap") is not None:
        raise InvalidRequest(
            problem="options 'path' and 'bootstrap': files are read or a broker is asked, choose one"
        )
