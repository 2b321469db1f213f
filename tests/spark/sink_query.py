"""A driver of its own that copies what is in a topic with the quiver sink: for tests that kill it, or parts of it.

`sink_query.py bootstrap source target checkpoint faults`. Tasks are tried up to four times. The first task that has
written its rows and finds the file `raise` in the folder `faults` fails, the first one that finds `kill` kills its
process; each fault happens once.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

import quiver_spark
from quiver_spark.sink import Written
from quiver_spark.source import QuiverSource
from quiver_spark.stream_writer import StreamWriter


class FaultyWriter(StreamWriter):
    """The sink, in a worker that may come to grief when everything is written and nothing is told."""

    faults: Path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = super().write(iterator)
        if written.producer is not None and self._takes("raise"):
            raise RuntimeError("the task fails after it has written")
        if written.producer is not None and self._takes("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    def _takes(self, fault: str) -> bool:
        try:
            (self.faults / fault).rename(self.faults / f"{fault}.done")
        except FileNotFoundError:
            return False
        return True


class FaultySource(QuiverSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        options = dict(self.options)
        faults = Path(options.pop("faults"))
        writer = FaultyWriter(options, schema, overwrite)
        writer.faults = faults
        return writer


def main(bootstrap: str, source: str, target: str, checkpoint: str, faults: str) -> None:
    spark = quiver_spark.session("sink-query", master="local[2,4]")
    spark.dataSource.register(FaultySource)
    reading = {"bootstrap": bootstrap, "topic": source, "maxRowsPerTrigger": 50}
    writing = {"bootstrap": bootstrap, "topic": target, "checkpointLocation": checkpoint, "faults": faults}
    rows = spark.readStream.format("quiver").options(**reading).load().select("key", "value")
    query = rows.writeStream.format("faulty").options(**writing).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
