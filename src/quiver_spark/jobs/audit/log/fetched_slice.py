"""A slice of a partition as its broker serves it: every frame, also after damage."""

import re

import quiver
from quiver.client import FetchedFrames
from quiver.model.errors import (
    CorruptData,
    InvalidFrame,
    OffsetOutOfRange,
    PartitionNotFound,
    QuiverError,
    TopicNotFound,
)
from quiver.model.position import EARLIEST
from quiver.reader.frame_version import check_version
from quiver.records.header import HEADER_BYTES, body_crc
from quiver.records.read import split_frames
from quiver_spark.broker_client import broker_client
from quiver_spark.jobs.audit.log.range_checks import GapRules, RangeChecks, RangeReport
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

_ISOLATION = "read_uncommitted"
_GOES_ON = re.compile(r"reading can go on at offset (\d+)")


def audit_slice(
    slice_: Slice, options: ReadOptions, rules: GapRules, limit: int, *, is_first: bool = True
) -> RangeReport:
    """Checks the frames that begin in a slice; the first slice of a partition also has the frame around its start."""
    checks = RangeChecks(slice_.topic, slice_.partition, rules, floor=slice_.start, limit=limit)
    client = broker_client(options.bootstrap, options.timeout_seconds)
    return _SliceWalk(slice_, options, client, checks, is_first=is_first).run()


def goes_on_at(error: QuiverError) -> int | None:
    """The offset at which the error says that reading can continue."""
    for name in ("next_offset", "next"):
        if name in error.details:
            return int(error.details[name])
    found = _GOES_ON.search(error.message)
    return int(found[1]) if found else None


class _SliceWalk:
    def __init__(
        self,
        slice_: Slice,
        options: ReadOptions,
        client: quiver.Client,
        checks: RangeChecks,
        *,
        is_first: bool,
    ) -> None:
        self._slice = slice_
        self._fetch_bytes = options.fetch_bytes
        self._client = client
        self._checks = checks
        self._offset = slice_.start
        self._takes_straddling = is_first
        self._has_begun = False

    def run(self) -> RangeReport:
        is_gone = False
        while self._offset < self._slice.stop and not is_gone:
            try:
                self._take(self._fetch())
            except CorruptData as error:
                stop = max(self._offset + 1, goes_on_at(error) or 0)
                self._pass_damage(min(stop, self._slice.stop), error.message)
            except OffsetOutOfRange:
                self._pass_removed()
            except (TopicNotFound, PartitionNotFound):
                is_gone = True
        report = self._checks.finish()
        report.is_gone = is_gone
        return report

    def _fetch(self) -> FetchedFrames:
        slice_ = self._slice
        return self._client.frames.fetch(
            slice_.topic_id, slice_.partition, self._offset, max_bytes=self._fetch_bytes, isolation=_ISOLATION
        )

    def _take(self, fetched: FetchedFrames) -> None:
        payload = fetched.buffer
        if not payload:
            self._find_end(fetched)
            return
        begun_at = self._offset
        try:
            for position, header in split_frames(payload):
                if header.base_offset >= self._slice.stop:
                    self._offset = self._slice.stop
                    return
                self._offset = max(self._offset, header.next_offset)
                if not self._has_begun and header.base_offset < self._slice.start:
                    if not self._takes_straddling or header.next_offset <= self._slice.start:
                        continue
                    self._checks.begin_at(header.base_offset)
                self._has_begun = True
                frame = payload[position : position + header.frame_bytes]
                is_good = body_crc(frame, frame[HEADER_BYTES:]) == header.body_crc
                self._checks.frame(header, is_good=is_good)
            problem = "the response of the broker ends within a frame"
        except InvalidFrame as error:
            problem = error.message
        if self._offset == begun_at:
            check_version(f"{self._slice.topic}-{self._slice.partition}", payload[:3])
            self._pass_damage(begun_at + 1, problem)

    def _pass_damage(self, stop: int, problem: str) -> None:
        self._has_begun = True
        self._checks.damage(stop, problem)
        self._offset = stop

    def _pass_removed(self) -> None:
        """Retention was faster, or the log lost its end."""
        slice_ = self._slice
        at_start = {slice_.partition: EARLIEST}
        earliest = self._client.frames.offsets(slice_.topic_id, at_start, isolation=_ISOLATION)[slice_.partition]
        if earliest > self._offset:
            self._checks.removed(earliest)
            self._offset = earliest
            self._has_begun = True
        else:
            self._lose_end(self._offset)

    def _find_end(self, fetched: FetchedFrames) -> None:
        """There is nothing more: the slice ends in offsets without frames, or the log has become shorter."""
        if fetched.high_watermark >= self._slice.stop:
            self._offset = self._slice.stop
        else:
            self._lose_end(fetched.high_watermark)

    def _lose_end(self, end: int) -> None:
        self._checks.lost(self._slice.stop, f"the partition ends at {end} now, and had more when the audit began")
        self._offset = self._slice.stop
