"""The options of the source: names in any case, checked before anything is read."""

from collections.abc import Mapping
from typing import NamedTuple

from quiver.client.connection.address import parse_bootstrap
from quiver.model.errors import InvalidRequest
from quiver.model.limits import KIB, MIB
from quiver.model.names import check_name
from quiver.model.position import EARLIEST, LATEST
from quiver.model.times import parse_duration_ms
from quiver_spark.source.positions import PartitionPositions, parse_positions

DEFAULT_BOOTSTRAP = "localhost:7481"
READ_OPTIONS = (
    "bootstrap",
    "path",
    "topic",
    "topics",
    "topicPattern",
    "internal",
    "start",
    "end",
    "isolation",
    "maxRowsPerTrigger",
    "minPartitions",
    "parallelism",
    "failOnDataLoss",
    "timeout",
    "fetchBytes",
)
_ISOLATIONS = ("read_committed", "read_uncommitted")
_MOST_ROWS = 2**62


class OptionMap:
    """Spark's option map. InvalidRequest names the option, what is wrong with it and what it takes."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...], use: str) -> None:
        self._options = {name.lower(): str(value).strip() for name, value in options.items()}
        names = {name.lower() for name in known}
        for name in self._options:
            if name not in names:
                raise InvalidRequest(
                    problem=f"option {name!r} is not one of the quiver source for {use}; there are {', '.join(known)}"
                )

    @property
    def is_empty(self) -> bool:
        return not any(self._options.values())

    def text(self, name: str) -> str | None:
        """None when the option is missing or empty."""
        return self._options.get(name.lower()) or None

    def whole(self, name: str, low: int, high: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        plain = text.replace("_", "")
        if not plain.isdigit() or not low <= int(plain) <= high:
            raise InvalidRequest(problem=f"option {name!r}: {text!r} is not a whole number from {low} to {high}")
        return int(plain)

    def flag(self, name: str, default: bool) -> bool:
        text = (self.text(name) or str(default)).lower()
        if text not in ("true", "false"):
            raise InvalidRequest(problem=f"option {name!r}: {text!r} is neither true nor false")
        return text == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """The first choice when the option is missing."""
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            raise InvalidRequest(problem=f"option {name!r}: {text!r} is not one of {', '.join(choices)}")
        return text

    def address(self, name: str = "bootstrap") -> str:
        return str(parse_bootstrap(self.text(name) or DEFAULT_BOOTSTRAP))


class ReadOptions(NamedTuple):
    """Which messages are read, from where and how. Sent to the workers."""

    bootstrap: str = DEFAULT_BOOTSTRAP
    path: str | None = None
    """A data directory: its segment files are read without a broker."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    internal: str | None = None
    """Which internal log is read instead of messages; direct reads only."""
    start: PartitionPositions = PartitionPositions(EARLIEST)
    end: PartitionPositions | None = None
    """None: the latest of a batch; a stream has no end."""
    committed: bool = True
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    parallelism: int | None = None
    """How many tasks can run at once; None: as many as the machine that plans has cores."""
    max_rows_per_trigger: int | None = None
    timeout_seconds: float = 30.0
    """How long to wait for a broker that does not respond."""
    fetch_bytes: int = 8 * MIB

    def check_positions(self, partitions: Mapping[str, int]) -> None:
        """Raises InvalidRequest if start or end names what is not among the topics that are read and their
        partitions."""
        self.start.check(partitions, "start")
        if self.end is not None:
            self.end.check(partitions, "end")


def read_options(options: Mapping[str, str], *, now_ms: int, streaming: bool = False) -> ReadOptions:
    """The options of a read, checked. A time ago such as -1h counts from `now_ms`."""
    given = OptionMap(options, READ_OPTIONS, "reading")
    _check_topics(given)
    if streaming and given.text("end") is not None:
        raise InvalidRequest(problem="option 'end' is for batch reads; a stream has none, or stops with availableNow")
    if not streaming and given.text("maxRowsPerTrigger") is not None:
        raise InvalidRequest(problem="option 'maxRowsPerTrigger' is for streams; a batch reads from start to end")
    end = given.text("end")
    defaults = ReadOptions()
    return ReadOptions(
        bootstrap=given.address(),
        path=given.text("path"),
        topics=_topics(given),
        pattern=given.text("topicPattern"),
        internal=given.text("internal"),
        start=parse_positions(given.text("start") or "earliest", EARLIEST, now_ms, "start"),
        end=None if end is None else parse_positions(end, LATEST, now_ms, "end"),
        committed=given.choice("isolation", _ISOLATIONS) == "read_committed",
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        min_partitions=given.whole("minPartitions", 1, 1_000_000),
        parallelism=given.whole("parallelism", 1, 1_000_000),
        max_rows_per_trigger=given.whole("maxRowsPerTrigger", 1, _MOST_ROWS),
        timeout_seconds=parse_duration_ms(given.text("timeout") or "30s", "option 'timeout'") / 1000,
        fetch_bytes=given.whole("fetchBytes", 64 * KIB, 64 * MIB) or defaults.fetch_bytes,
    )


def _topics(given: OptionMap) -> tuple[str, ...]:
    """An internal log that belongs to no topic is read under its own name."""
    internal = given.text("internal")
    if internal is not None and "/" in internal:
        return (internal,)
    text = given.text("topic") or given.text("topics") or ""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(check_name(name) for name in names))


def _check_topics(given: OptionMap) -> None:
    """One way of naming what is read, and one place to read it from."""
    named = [name for name in ("topic", "topics", "topicPattern") if given.text(name) is not None]
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
