"""Redrives selected dead letters: the broker does it, up to a few thousand per request."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from quiver.client.admin.dead_letters import TakenDeadLetters
from quiver.model.dead_letter import DeadLetterId
from quiver.model.limits import MIB
from quiver.structures.interval_set import IntervalSet
from quiver_spark.broker_client import broker_client
from quiver_spark.jobs.dead_letters.source import TopicAndPartition
from quiver_spark.jobs.dead_letters.transforms import ID_COLUMNS, RUN_COLUMNS, offset_runs
from quiver_spark.jobs.progress import Bar
from quiver_spark.jobs.ranges import Range
from quiver_spark.runtime.stopwatch import Stopwatch
from quiver_spark.source.options import ReadOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Selected = Mapping[TopicAndPartition, IntervalSet]
"""The offsets of dead letters by topic and partition."""

_BATCH_MESSAGES = 5000
_BATCH_BYTES = 16 * MIB
_IDS_SHOWN = 10


class Batch(NamedTuple):
    """Dead letters of one partition, in order."""

    topic: str
    ids: list[DeadLetterId]


class Redriven(msgspec.Struct):
    """The result of a redrive."""

    topics: dict[str, int] = {}
    """How many the broker took, by dead-letter topic."""
    ids: dict[str, list[str]] = {}
    """The first of them."""
    gone: int = 0
    """Dead letters that no longer existed."""

    @property
    def dead_letters(self) -> int:
        return sum(self.topics.values())

    def add(self, topic: str, taken: TakenDeadLetters) -> None:
        self.topics[topic] = self.topics.get(topic, 0) + taken.dead_letter_count
        self.ids[topic] = [*self.ids.get(topic, []), *taken.ids][:_IDS_SHOWN]
        self.gone += len(taken.missing)


def select_dead_letters(
    frame: "DataFrame", ranges: Iterable[Range], limit: int | None
) -> dict[TopicAndPartition, IntervalSet]:
    """The offsets of the dead letters in a frame, within the ranges; with a limit the oldest."""
    if limit is not None:
        frame = frame.orderBy("died_at", *ID_COLUMNS).limit(limit)
    runs = frame.select(*ID_COLUMNS).mapInArrow(offset_runs, RUN_COLUMNS).toArrow()
    found: dict[TopicAndPartition, IntervalSet] = {}
    for batch in runs.to_batches():
        for topic, partition, start, stop in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found.setdefault((topic, partition), IntervalSet()).add(start, stop)
    return {
        each[:2]: IntervalSet(found[each[:2]].within(each.start, each.stop)) for each in ranges if each[:2] in found
    }


def cut_at(ranges: Iterable[Range], selected: Selected) -> list[Range]:
    """The ranges up to the last selected dead letter of each. Those of a partition are in the order of `died_at`, so
    the oldest ones that a limit chose are all that match in these ranges. Pure."""
    return [each._replace(stop=_behind(selected.get(each[:2]), each.start)) for each in ranges]


def _behind(offsets: IntervalSet | None, otherwise: int) -> int:
    return max((stop for _, stop in offsets or ()), default=otherwise)


def batch_size(bytes_each: float, rate: int | None) -> int:
    """The size of a request: it stays short, and with a rate it is at most what one second allows. Pure."""
    most = min(_BATCH_MESSAGES, int(_BATCH_BYTES / max(1.0, bytes_each)))
    return max(1, most if rate is None else min(most, rate))


def batches(selected: Selected, size: int) -> Iterator[Batch]:
    """All of them, topic by topic and partition by partition. Pure."""
    for (topic, partition), offsets in sorted(selected.items(), key=lambda item: item[0]):
        ids: list[DeadLetterId] = []
        for start, stop in offsets:
            for offset in range(start, stop):
                ids.append(DeadLetterId(partition, offset))
                if len(ids) == size:
                    yield Batch(topic, ids)
                    ids = []
        if ids:
            yield Batch(topic, ids)


class Redriver(NamedTuple):
    options: ReadOptions
    into: str | None
    rate: int | None
    batch_count: int
    dry_run: bool

    def send_back(self, selected: Selected, bar: Bar) -> Redriven:
        """Batch after batch, so that messages of one partition keep their order; a dry run only asks."""
        client = broker_client(self.options.bootstrap, self.options.timeout_seconds)
        done, watch, sent = Redriven(), Stopwatch(), 0
        for topic, ids in batches(selected, self.batch_count):
            done.add(topic, client.dead_letters.redrive(topic, ids=ids, to=self.into, dry_run=self.dry_run))
            bar.advance(len(ids))
            sent += len(ids)
            if self.rate is not None and not self.dry_run:
                time.sleep(max(0.0, sent / self.rate - watch.seconds()))
        return done
