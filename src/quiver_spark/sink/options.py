"""The options of the sink, checked before any row is written."""

from collections.abc import Mapping
from typing import NamedTuple

from quiver.model.errors import InvalidRequest
from quiver.model.names import check_name
from quiver.records.header import COMPRESSION_CODES
from quiver_spark.options.kafka_names import WRITE_NAMES
from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP, OptionMap

WRITE_OPTIONS = (
    "bootstrap",
    "topic",
    "usePartitionColumn",
    "includeHeaders",
    "compression",
    "transactionTimeout",
    "timeout",
    "commitKey",
)
_OF_SPARK = {"checkpointlocation", "queryname"}
"""Spark passes its own options of a query to the sink."""
_TRANSACTION_MS = 15 * 60_000
_LONGEST_TRANSACTION_MS = 24 * 3_600_000
_LONGEST_KEY = 1_000


class WriteOptions(NamedTuple):
    """Where and how rows are written. Sent to the workers."""

    topic: str | None = None
    """None: the column `topic` names the topic of each row."""
    bootstrap: str = DEFAULT_BOOTSTRAP
    use_partition_column: bool = False
    include_headers: bool = True
    """Whether the column `headers` is written."""
    compression: str = "none"
    transaction_timeout_ms: int = _TRANSACTION_MS
    """How long the rows of a task may wait for the commit of the batch."""
    timeout_seconds: float = 30.0
    """How long to wait for a broker that does not respond."""
    commit_key: str | None = None
    """Of two batch writes with the same key, the second does nothing."""
    checkpoint: str | None = None
    """Where Spark keeps the state of the query, if that is named in the options."""


def write_options(options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """The options of a write, checked."""
    lowered = {name.lower(): value for name, value in options.items()}
    checkpoint = lowered.get("checkpointlocation")
    ours = {name: lowered[name] for name in lowered.keys() - _OF_SPARK}
    given = OptionMap(ours, WRITE_OPTIONS, "writing", WRITE_NAMES)
    topic = given.text("topic")
    timeout_ms = given.milliseconds("transactionTimeout", "15m")
    if not 1_000 <= timeout_ms <= _LONGEST_TRANSACTION_MS:
        shown = given.given_as("transactionTimeout")
        raise InvalidRequest(problem=f"option {shown!r} is a duration from 1s to 24h")
    key = given.text("commitKey")
    if key is not None and streaming:
        raise InvalidRequest(problem="option 'commitKey' is for batch writes; a stream numbers its own batches")
    if key is not None and len(key) > _LONGEST_KEY:
        raise InvalidRequest(problem=f"option 'commitKey' has at most {_LONGEST_KEY} characters")
    return WriteOptions(
        topic=None if topic is None else check_name(topic),
        bootstrap=given.address(),
        use_partition_column=given.flag("usePartitionColumn", False),
        include_headers=given.flag("includeHeaders", True),
        compression=given.choice("compression", tuple(COMPRESSION_CODES)),
        transaction_timeout_ms=timeout_ms,
        timeout_seconds=given.milliseconds("timeout", "30s") / 1000,
        commit_key=key,
        checkpoint=checkpoint,
    )
