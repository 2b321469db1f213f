"""The first half of a pass: which messages stay. It reads everything and changes nothing.

First it reads the part that was never compacted, which gives the last row of each key; then the part before it, where
each key occurs once and is removed if it was seen again.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.log.compaction.job import Scope, Surveyed
from quiver.log.compaction.key_hash import KeyHash
from quiver.log.compaction.latest_keys import LatestKeys, Rows
from quiver.log.compaction.row_flags import RowFlags
from quiver.log.compaction.source import BadFrame, Source
from quiver.log.compaction.transactions import AbortedData, Markers
from quiver.model.errors import InvalidFrame
from quiver.model.limits import MIB, Limits
from quiver.records.arrow_arrays import to_mask
from quiver.records.body import check_readable, open_body
from quiver.records.columns import KEY, VALUE, layout_for
from quiver.records.header import FrameHeader, StampedFrame
from quiver.records.thin import offset_deltas

_HASHED_ROWS = 1 << 16
_HELD_BYTES = 32 * MIB
_THINNED_FRAME_BYTES = 600
_OFFSET_BYTES = 4
_LIMITS = Limits(frame_bytes=2**31 - 1)


class SegmentSurvey(NamedTuple):
    """What stays of one segment."""

    source: Source
    kept: npt.NDArray[np.uint8]
    """A bit per message, in order."""
    record_count: int
    kept_count: int
    estimated_bytes: int
    first_append_time_ms: int
    last_append_time_ms: int

    @property
    def is_changed(self) -> bool:
        return self.kept_count < self.record_count


class Survey(NamedTuple):
    segments: list[SegmentSurvey]
    totals: Surveyed


class _FrameColumns:
    """The frames of one segment, as numbers."""

    def __init__(self) -> None:
        self.first_rows = array("q")
        self.counts = array("q")
        self.sizes = array("q")
        self.first_append_time_ms = self.last_append_time_ms = 0

    def add(self, header: FrameHeader, first_row: int) -> None:
        if not self.sizes:
            self.first_append_time_ms = header.append_time_ms
        self.last_append_time_ms = header.append_time_ms
        self.first_rows.append(first_row)
        self.counts.append(header.record_count)
        self.sizes.append(header.frame_bytes)

    @property
    def rows(self) -> tuple[int, int]:
        """Where the rows of the segment begin and end."""
        return (self.first_rows[0], self.first_rows[-1] + self.counts[-1]) if self.sizes else (0, 0)


def survey(sources: Sequence[Source], scope: Scope, seed: bytes) -> Survey:
    """Raises HashCollision; another seed helps."""
    return _Surveyor(scope, KeyHash(seed)).run(sources)


class _Surveyor:
    def __init__(self, scope: Scope, key_hash: KeyHash) -> None:
        self._scope = scope
        self._hash = key_hash
        self._aborted = AbortedData(scope.aborted)
        self._flags = RowFlags()
        self._latest = LatestKeys(self._flags.clear)
        self._keys: list[tuple[pa.Array, Rows]] = []
        self._held_rows = self._held_bytes = 0
        self._tombstones: list[tuple[Rows, Rows]] = []
        self._controls: list[int] = []
        self._damaged: set[int] = set()
        self._is_building = True

    def run(self, sources: Sequence[Source]) -> Survey:
        first_dirty = sum(1 for source in sources if source.base_offset < self._scope.clean_to)
        clean, dirty = sources[:first_dirty], sources[first_dirty:]
        dirty_markers, clean_markers = Markers(), Markers()
        dirty_frames = self._read_dirty(dirty, dirty_markers)
        clean_frames = [self._read(source, clean_markers) for source in clean]
        self._hash_held()
        self._drop_markers(clean_markers, set())
        self._drop_markers(dirty_markers, clean_markers.with_data)
        read, frames = [*clean, *dirty[: len(dirty_frames)]], clean_frames + dirty_frames
        self._keep_damaged(read, frames)
        return self._result(read, frames, self._drop_tombstones())

    def _read_dirty(self, sources: Sequence[Source], markers: Markers) -> list[_FrameColumns]:
        """As many segments as have keys that fit into memory; at least one."""
        found = []
        for source in sources:
            found.append(self._read(source, markers))
            self._hash_held()
            if self._latest.has_more_than(self._scope.max_keys):
                break
        self._latest.settle()
        self._is_building = False
        return found

    def _drop_markers(self, markers: Markers, with_data: set[int]) -> None:
        """Decides about the first markers of a run from the producers that had data before it."""
        rows = [row for producer, row in markers.undecided.items() if producer not in with_data]
        self._flags.clear(np.array(rows, np.int64))

    def _read(self, source: Source, markers: Markers) -> _FrameColumns:
        found = _FrameColumns()
        try:
            for frame in source.frames():
                row = self._flags.add(frame.header.record_count)
                found.add(frame.header, row)
                self._look_at(frame, row, markers)
        except BadFrame:
            self._damaged.add(source.base_offset)
        if not source.is_sound:
            self._damaged.add(source.base_offset)
        return found

    def _look_at(self, frame: StampedFrame, row: int, markers: Markers) -> None:
        header = frame.header
        if header.is_control:
            self._controls.append(row)
            has_data, is_known = markers.pass_marker(header, row), self._aborted.has_marker(header)
            if is_known and markers.undecided.get(header.producer_id) == row:
                del markers.undecided[header.producer_id]
            elif not has_data and not is_known:
                self._flags.clear(np.array([row]))
            return
        markers.pass_data(header)
        if self._aborted.has_data(header):
            self._flags.clear(np.arange(row, row + header.record_count))
            return
        if not header.columns & KEY.bit:
            return
        try:
            check_readable(header, _LIMITS)
            batch = open_body(memoryview(frame.body), header, trusted=True)
        except InvalidFrame:
            return  # written by another version: it stays as it is
        self._note_tombstones(header, batch, row)
        self._hold(batch.column(layout_for(header.columns).place(KEY)), row, header.uncompressed_length)

    def _note_tombstones(self, header: FrameHeader, batch: pa.RecordBatch, row: int) -> None:
        values = batch.column(layout_for(header.columns).place(VALUE))
        if not values.null_count:
            return
        rows = np.flatnonzero(to_mask(values.is_null()))
        keys = batch.column(layout_for(header.columns).place(KEY))
        if keys.null_count:
            rows = rows[to_mask(keys.is_valid())[rows]]
        offsets = header.base_offset + offset_deltas(header, batch)[rows].astype(np.int64)
        self._tombstones.append((offsets, rows + row))

    def _hold(self, keys: pa.Array, row: int, body_bytes: int) -> None:
        """Keeps keys until there are enough to be hashed at once."""
        rows = np.arange(row, row + len(keys))
        if keys.null_count:
            rows = rows[to_mask(keys.is_valid())]
            keys = keys.drop_null()
        if not len(keys):
            return
        self._keys.append((keys, rows))
        self._held_rows += len(rows)
        self._held_bytes += body_bytes
        if self._held_rows >= _HASHED_ROWS or self._held_bytes >= _HELD_BYTES:
            self._hash_held()

    def _hash_held(self) -> None:
        if not self._keys:
            return
        columns, rows = zip(*self._keys, strict=True)
        self._keys, self._held_rows, self._held_bytes = [], 0, 0
        first, second = self._hash.halves(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
        places = np.concatenate(rows)
        if self._is_building:
            self._latest.add(first, second, places)
        else:
            self._flags.clear(places[self._latest.contains(first, second)])

    def _keep_damaged(self, sources: Sequence[Source], frames: Sequence[_FrameColumns]) -> None:
        """A damaged segment stays byte for byte."""
        for source, found in zip(sources, frames, strict=True):
            if source.base_offset in self._damaged:
                self._flags.keep(*found.rows)

    def _drop_tombstones(self) -> int:
        """Removes tombstones that are old enough, unless a damaged segment before them may have the value that they
        delete."""
        below = min(self._scope.tombstones_below, min(self._damaged, default=self._scope.tombstones_below))
        left = 0
        for offsets, rows in self._tombstones:
            self._flags.clear(rows[offsets < below])
            left += self._flags.count_at(rows)
        return left

    def _result(self, sources: Sequence[Source], frames: Sequence[_FrameColumns], tombstones: int) -> Survey:
        segments = [self._segment(source, found) for source, found in zip(sources, frames, strict=True)]
        controls = np.array(self._controls, np.int64)
        return Survey(
            segments,
            Surveyed(
                segment_count=len(segments),
                records_before=sum(segment.record_count for segment in segments) - len(controls),
                records_after=sum(segment.kept_count for segment in segments) - self._flags.count_at(controls),
                tombstones=tombstones,
                damaged=tuple(sorted(self._damaged)),
            ),
        )

    def _segment(self, source: Source, frames: _FrameColumns) -> SegmentSurvey:
        begin, end = frames.rows
        if begin == end:
            return SegmentSurvey(source, np.zeros(0, np.uint8), 0, 0, 0, 0, 0)
        counts, sizes = np.array(frames.counts, np.int64), np.array(frames.sizes, np.int64)
        kept = self._flags.counts(np.array(frames.first_rows, np.int64), end)
        thinned = _THINNED_FRAME_BYTES + sizes * kept // counts + _OFFSET_BYTES * kept
        estimate = np.where(kept == 0, 0, np.where(kept == counts, sizes, thinned))
        return SegmentSurvey(
            source,
            self._flags.packed(begin, end),
            end - begin,
            int(kept.sum()),
            int(estimate.sum()),
            frames.first_append_time_ms,
            frames.last_append_time_ms,
        )
