"""The quiver source and sink in workers that fail when a test says so, as the format `faulty`.

The option `faults` names a folder. A file `<where>.<what>` in it happens once, from the second micro-batch on, so
that something was committed before. Where: `plan`, slices are about to be made; `read`, half of a slice has gone to
Spark; `written`, the rows are stored and nobody was told. What: `kill`, the worker kills itself; `raise`, it fails;
`hold`, it waits until the file `<where>.go` appears.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import InputPartition

from quiver_spark.sink.stream_writer import StreamWriter, query_and_batch
from quiver_spark.source.data_source import QuiverSource
from quiver_spark.source.stream_offset import parse_offset
from quiver_spark.source.stream_reader import StreamReader
from quiver_spark.source.tasks import SlicePartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from quiver_spark.sink.exactly_once import Written

# Workers know nothing of the tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

_HOLD_SECONDS = 390
_POLL_SECONDS = 0.01


def strike(faults: Path, where: str) -> None:
    """What is to happen here, once."""
    for what in ("kill", "raise", "hold"):
        try:
            (faults / f"{where}.{what}").rename(faults / f"{where}.{what}.done")
        except FileNotFoundError:
            continue
        if what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "raise":
            raise RuntimeError(f"the task fails ({where})")
        deadline = time.monotonic() + _HOLD_SECONDS
        while not (faults / f"{where}.go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody let it go on ({where})")
            time.sleep(_POLL_SECONDS)


def strike_task(faults: Path, where: str) -> None:
    """The same, in a task."""
    context = TaskContext.get()
    assert context is not None, "it is called in tasks"
    if query_and_batch(context)[1] > 0:
        strike(faults, where)


class FaultyReader(StreamReader):
    def __init__(self, options: dict[str, str], schema: "StructType", faults: Path) -> None:
        super().__init__(options, schema)
        self._faults = faults

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if any(offset > 0 for place in parse_offset(start).values() for offset in place.next.values()):
            strike(self._faults, "plan")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        for slice_ in partition.slices if isinstance(partition, SlicePartition) else ():
            middle = (slice_.start + slice_.stop) // 2
            yield from super().read(SlicePartition((slice_._replace(stop=middle),)))
            strike_task(self._faults, "read")
            yield from super().read(SlicePartition((slice_._replace(start=middle),)))


class FaultyWriter(StreamWriter):
    def __init__(self, options: dict[str, str], schema: "StructType", overwrite: bool, faults: Path) -> None:
        super().__init__(options, schema, overwrite)
        self._faults = faults

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> "Written":
        written = super().write(iterator)
        if written.producer is not None:
            strike_task(self._faults, "written")
        return written


class FaultySource(QuiverSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def schema(self) -> str:
        return QuiverSource(self._split()[0]).schema()

    def streamReader(self, schema: "StructType") -> Any:
        options, faults = self._split()
        return FaultyReader(options, schema, faults)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> Any:
        options, faults = self._split()
        return FaultyWriter(options, schema, overwrite, faults)

    def _split(self) -> tuple[dict[str, str], Path]:
        options = dict(self.options)
        return options, Path(options.pop("faults"))
