"""What was ingested already: a topic beside the target, written in the same transactions as the rows."""

import contextlib
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from quiver.model.errors import TopicExists
from quiver_spark.broker_client import broker_client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SUFFIX = ".ingested"


class DoneTopic:
    """Has a message for each file or table: its key is the path, its value says how far it was read."""

    def __init__(self, target: str, bootstrap: str, timeout_seconds: float = 30.0) -> None:
        self.name = f"{target}{SUFFIX}"
        self._client = broker_client(bootstrap, timeout_seconds)

    def read(self) -> dict[str, dict[str, Any]]:
        """The last record of each key; empty if there is no such topic yet."""
        if self.name not in self._client.topics.list():
            return {}
        with self._client.read(self.name, start="earliest", end="latest") as messages:
            return {
                (message.key or b"").decode(): msgspec.json.decode(message.value)
                for message in messages
                if message.value is not None
            }

    def make(self) -> None:
        with contextlib.suppress(TopicExists):
            if self.name not in self._client.topics.list():
                self._client.topics.create(self.name, partitions=1, cleanup="compact")


def with_records(
    rows: "DataFrame", target: str, done: DoneTopic, records: Mapping[str, Mapping[str, Any]]
) -> "DataFrame":
    """Rows with key and value for the target, and the records for the topic of what is done: all for one commit."""
    from pyspark.sql import functions as f

    entries = [(done.name, key, msgspec.json.encode(record).decode()) for key, record in records.items()]
    beside = rows.sparkSession.createDataFrame(entries, "topic string, key string, value string").coalesce(1)
    return rows.select(f.lit(target).alias("topic"), "key", "value").unionByName(beside)


def commit_key(target: str, records: Mapping[str, Mapping[str, Any]]) -> str:
    """The same for runs that write the same. Pure."""
    text = repr((target, sorted((key, sorted(record.items())) for key, record in records.items())))
    return f"ingest/{hashlib.sha256(text.encode()).hexdigest()[:32]}"
