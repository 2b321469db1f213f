"""Where a replay reads from: a topic as it is, or a lake. Both give rows of ranges of offsets."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from quiver.model.errors import InvalidRequest, TopicNotFound
from quiver_spark.column_types import SPARK_TYPES
from quiver_spark.jobs.ranges import Range, Times
from quiver_spark.jobs.replay.plan import chosen_files, lake_ranges, row_condition, times_of
from quiver_spark.lake.reading import lake_frame
from quiver_spark.lake.table import Lake
from quiver_spark.runtime.cluster import cores
from quiver_spark.source.catalogue import open_catalogue, plan
from quiver_spark.source.columns import COLUMNS
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ReplaySource(Protocol):
    def ranges(self) -> list[Range]:
        """All that is asked for, as it is now."""
        ...

    def times(self) -> Times:
        """Bounds for the times of rows."""
        ...

    def frame(self, spark: "SparkSession", batch: Sequence[Range], times: Times) -> "DataFrame":
        """The rows of a batch."""
        ...


@dataclass(frozen=True)
class TopicSource:
    options: ReadOptions
    partitions: Sequence[int] | None
    columns: Sequence[str] = COLUMNS
    """Those to read, with topic, partition and offset among them."""

    def ranges(self) -> list[Range]:
        found: dict[tuple[str, int], Range] = {}
        for slice_ in plan(self.options, cores=1):
            if self.partitions is None or slice_.partition in self.partitions:
                known = found.get(slice_[:2], Range(*slice_[:5]))
                start, stop = min(known.start, slice_.start), max(known.stop, slice_.stop)
                found[slice_[:2]] = known._replace(start=start, stop=stop)
        return list(found.values())

    def times(self) -> Times:
        return Times()

    def frame(self, spark: "SparkSession", batch: Sequence[Range], times: Times) -> "DataFrame":
        whole = [*batch, *self._others(batch)]
        options = {
            "isolation": "read_committed" if self.options.committed else "read_uncommitted",
            "failOnDataLoss": str(self.options.fail_on_data_loss).lower(),
            "timeout": f"{self.options.timeout_seconds:g}s",
            "fetchBytes": self.options.fetch_bytes,
            "parallelism": cores(spark),
            "topics": ",".join(dict.fromkeys(each.topic for each in batch)),
            "start": _places(whole, "start"),
            "end": _places(whole, "stop"),
        }
        place = {"path": self.options.path} if self.options.path else self._broker()
        schema = ", ".join(f"{name} {SPARK_TYPES[name]}" for name in self.columns)
        frame = spark.read.format("quiver").schema(schema).options(**options, **place).load()
        return frame.where(row_condition(batch, times))

    def _broker(self) -> dict[str, str]:
        return {"bootstrap": self.options.bootstrap, "localFiles": str(self.options.local_files).lower()}

    def _others(self, batch: Sequence[Range]) -> Iterator[Range]:
        """Empty ranges of the partitions that are not in a batch: the source would read them as a whole otherwise.

        Raises TopicNotFound if a topic is no longer the one of the ranges.
        """
        there = {(each.topic, each.partition) for each in batch}
        ids = {each.topic: each.topic_id for each in batch}
        catalogue = open_catalogue(self.options)
        try:
            for topic in dict.fromkeys(each.topic for each in batch):
                extent = catalogue.extent(topic)
                if ids[topic] not in (0, extent.id):
                    raise TopicNotFound(
                        f"topic {topic!r} was deleted and made again since this run was planned, and what is left of"
                        " the run is gone with it; begin a new run",
                        topic=topic,
                    )
                for number in range(len(extent.latest)):
                    if (topic, number) not in there:
                        yield Range(topic, number, 0, 0)
        finally:
            catalogue.close()


def _places(batch: Sequence[Range], which: str) -> str:
    """JSON by topic and partition."""
    places: dict[str, dict[str, int]] = {}
    for each in batch:
        places.setdefault(each.topic, {})[str(each.partition)] = getattr(each, which)
    return json.dumps(places)


@dataclass(frozen=True)
class LakeSource:
    lake: Lake
    options: ReadOptions
    partitions: Sequence[int] | None
    topic_id: int | None = None
    """Of topics that had the same name one after the other, only this one."""

    def ranges(self) -> list[Range]:
        files = self.lake.files()
        known = {file.topic for file in files}
        for topic in self.options.topics:
            if topic not in known:
                there = ", ".join(sorted(known)) or "none"
                raise InvalidRequest(problem=f"the lake in {self.lake.place} has no topic {topic!r}; it has {there}")
        if self.topic_id is not None:
            ids = sorted({file.topic_id or 0 for file in files if file.topic in self.options.topics})
            if self.topic_id not in ids:
                problem = f"the lake in {self.lake.place} has nothing of a topic with id {self.topic_id}"
                raise InvalidRequest(problem=f"{problem}; it has the ids {', '.join(map(str, ids))} (0: not known)")
            files = [file for file in files if (file.topic_id or 0) == self.topic_id]
        return lake_ranges(files, self.options, self.partitions)

    def times(self) -> Times:
        return times_of(self.options)

    def frame(self, spark: "SparkSession", batch: Sequence[Range], times: Times) -> "DataFrame":
        frame = lake_frame(spark, self.lake, chosen_files(self.lake.files(), batch, times))
        return frame.where(row_condition(batch, times))
