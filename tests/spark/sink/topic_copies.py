"""Queries that copy a topic into another one or into Parquet files, with faults on their way."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark.sink.faulty_source import FaultySource

_ROWS_AT_ONCE = 20


class Copy:
    """A query that goes on where it was when it is started again, also in another process.

    Everything it has lies in `place`: the checkpoint, the faults (see faulty_source.py), the Parquet files. Without a
    topic to write to it writes these.
    """

    def __init__(self, bootstrap: str, source: str, place: Path, target: str | None = None) -> None:
        self.faults = place / "faults"
        self.faults.mkdir(parents=True, exist_ok=True)
        self.files = place / "files"
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self._checkpoint = place / "checkpoint"

    def start(self, spark: SparkSession, timeout: str = "60s", tasks: int = 2, **trigger: Any) -> StreamingQuery:
        """Copies what is there, in micro-batches of so many tasks, unless a trigger says otherwise."""
        spark.dataSource.register(FaultySource)
        common = {"bootstrap": self._bootstrap, "timeout": timeout, "faults": str(self.faults)}
        reading = {"topic": self._source, "maxRowsPerTrigger": _ROWS_AT_ONCE, "minPartitions": tasks, **common}
        rows = spark.readStream.format("faulty").options(**reading).load().select("key", "value")
        writer = rows.writeStream.option("checkpointLocation", str(self._checkpoint))
        if self._target is None:
            writer = writer.format("parquet").option("path", str(self.files))
        else:
            writer = writer.format("faulty").options(topic=self._target, **common)
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def fault(self, *names: str) -> None:
        for name in names:
            (self.faults / name).touch()

    def met(self, name: str) -> bool:
        """Whether a fault has happened, or has begun to."""
        return (self.faults / f"{name}.done").exists()
