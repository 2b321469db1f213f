"""How many messages the log has, by date and interval of offsets, and what is in the files of a lake."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from quiver.model.errors import CorruptData, OffsetOutOfRange, QuiverError
from quiver.reader.stored_frame import StoredFrame
from quiver.records.columns import OFFSET_DELTA, TIMESTAMP
from quiver.records.header import FrameHeader
from quiver.records.read import OpenFrame
from quiver.records.thin import offset_deltas
from quiver_spark.jobs.audit.lake.checks import FileReport, Span
from quiver_spark.jobs.audit.log.fetched_slice import goes_on_at
from quiver_spark.lake.files import LakeFile
from quiver_spark.lake.storage.place import LakePlace
from quiver_spark.lake.storage.store import Store, open_store
from quiver_spark.source.frames import opened, stored_frames
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

DAY_MS = 86_400_000
_Integers = npt.NDArray[np.int64]


class LakeAnswer(msgspec.Struct, kw_only=True):
    """What a task found in the log, or in files of the lake."""

    counts: list[tuple[int, int, int]] = []
    """Begin of an interval, day, and messages."""
    unknown: list[Span] = []
    """Offsets that could not be read."""
    files: list[FileReport] = []


class CountTask(NamedTuple):
    """Counts the messages of a slice, between some offsets; the first is its start and the last its stop."""

    slice: Slice
    borders: tuple[int, ...]
    options: ReadOptions

    def answer(self) -> LakeAnswer:
        counts, unknown = MessageCounts(self.borders), list[Span]()
        for stored in readable_frames(self.slice, self.options, counts.needs_body, unknown):
            try:
                counts.add(stored.header, lambda stored=stored: opened(self.slice, stored))  # type: ignore[misc]
            except CorruptData:
                unknown.append((stored.header.base_offset, stored.header.next_offset))
        found = [(self.borders[place], day, count) for (place, day), count in counts.found.items()]
        return LakeAnswer(counts=found, unknown=unknown)


class MessageCounts:
    """Messages by interval and day. Pure; a frame is opened only if it reaches over the end of one of the two."""

    def __init__(self, borders: tuple[int, ...]) -> None:
        self._borders: _Integers = np.array(borders, np.int64)
        self.found: dict[tuple[int, int], int] = {}
        """By place of the interval and day after 1970-01-01."""

    def needs_body(self, header: FrameHeader) -> bool:
        if header.min_timestamp_ms // DAY_MS != header.max_timestamp_ms // DAY_MS:
            return True
        return bool(header.columns & OFFSET_DELTA.bit) and not self._is_within_one(header)

    def add(self, header: FrameHeader, open_it: Callable[[], OpenFrame]) -> None:
        day = header.min_timestamp_ms // DAY_MS
        if self._is_within_one(header) and header.max_timestamp_ms // DAY_MS == day:
            place = int(self._borders.searchsorted(header.base_offset, "right")) - 1
            self.found[place, day] = self.found.get((place, day), 0) + header.record_count
            return
        frame = open_it() if self.needs_body(header) else None
        offsets, days = _rows(header, frame)
        places = self._borders.searchsorted(offsets, "right") - 1
        inside = (offsets >= self._borders[0]) & (offsets < self._borders[-1])
        pairs, counts = np.unique(np.stack((places[inside], days[inside])), axis=1, return_counts=True)
        for at, number, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            self.found[at, number] = self.found.get((at, number), 0) + count

    def _is_within_one(self, header: FrameHeader) -> bool:
        first, last = self._borders.searchsorted((header.base_offset, header.last_offset), "right")
        return bool(first == last and 0 < first < len(self._borders))


def _rows(header: FrameHeader, frame: OpenFrame | None) -> tuple[_Integers, _Integers]:
    """Offset and day of each message."""
    if frame is None:
        steps: _Integers = np.arange(header.record_count, dtype=np.int64)
    else:
        steps = offset_deltas(header, frame.batch).astype(np.int64)
    times = None if frame is None else frame.column(TIMESTAMP)
    if times is None:
        days = np.full(header.record_count, header.min_timestamp_ms // DAY_MS, np.int64)
    else:
        days = times.to_numpy() // DAY_MS
    return steps + header.base_offset, days


def readable_frames(
    slice_: Slice, options: ReadOptions, wants_body: Callable[[FrameHeader], bool], unknown: list[Span]
) -> Iterator[StoredFrame]:
    """The frames of a slice with messages that count. What is damaged or gone is left out and added to `unknown`."""
    offset = slice_.start
    while offset < slice_.stop:
        try:
            for stored in stored_frames(slice_._replace(start=offset), options, wants_body):
                yield stored
                offset = max(offset, stored.header.next_offset)
            return
        except (CorruptData, OffsetOutOfRange) as error:
            stop = after_error(error, slice_, offset)
            unknown.append((offset, stop))
            offset = stop


def after_error(error: QuiverError, slice_: Slice, offset: int) -> int:
    """The rest of a slice. A slice from files only knows its aborted transactions from its start on."""
    found = None if slice_.aborted else goes_on_at(error)
    return slice_.stop if found is None else max(offset + 1, found)


class FileTask(NamedTuple):
    """Reads files of a lake, and counts their rows within some offsets."""

    place: LakePlace
    files: tuple[tuple[LakeFile, Span], ...]

    def answer(self) -> LakeAnswer:
        store = open_store(self.place)
        return LakeAnswer(files=[file_report(store, file, span) for file, span in self.files])


def file_report(store: Store, file: LakeFile, compared: Span) -> FileReport:
    """Only the footer is read, unless some of the rows are compared and some are not."""
    start, stop = compared
    try:
        with pq.ParquetFile(store.source(file.path)) as found:
            rows = found.metadata.num_rows
            if start <= file.first_offset and file.last_offset < stop:
                return FileReport(file.path, rows, rows)
            inside = 0
            if start < stop:
                offsets = found.read(columns=["offset"]).column(0).to_numpy()
                inside = int(np.count_nonzero((offsets >= start) & (offsets < stop)))
            return FileReport(file.path, rows, inside)
    except FileNotFoundError:
        return FileReport(file.path, problem="the file is gone")
    except (OSError, pa.ArrowException, IndexError, ValueError) as error:
        return FileReport(file.path, problem=f"the file cannot be read ({str(error).partition(chr(10))[0]})")
