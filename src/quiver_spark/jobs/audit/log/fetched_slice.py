"""A slice of a partition as its broker serves it: every frame, also behind damage."""

import re

from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.model.errors import (
    CorruptData,
    InvalidFrame,
    OffsetOutOfRange,
    PartitionNotFound,
    QuiverError,
    TopicNotFound,
    error_from_wire,
)
from quiver.model.position import EARLIEST
from quiver.protocol.messages import Fetch, Fetched, FetchedPart, FetchPart, ListOffsets, OffsetPart, Offsets
from quiver.reader.frame_version import check_version
from quiver.records.header import HEADER_BYTES, body_crc
from quiver.records.read import split_frames
from quiver_spark.broker_link import broker_link
from quiver_spark.jobs.audit.log.stretch import GapRules, StretchChecks, StretchReport
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

_WAIT_MS = 0
_GOES_ON = re.compile(r"reading can go on at offset (\d+)")


def audit_slice(
    piece: Slice, options: ReadOptions, rules: GapRules, limit: int, *, is_first: bool = True
) -> StretchReport:
    """The frames that begin in a slice. The first slice of a partition also has the one that its start lies in."""
    checks = StretchChecks(piece.topic, piece.partition, rules, floor=piece.start, limit=limit)
    link = broker_link(options.bootstrap, options.timeout_seconds)
    return _SliceWalk(piece, options, link, checks, is_first=is_first).run()


def goes_on_at(error: QuiverError) -> int | None:
    """Where reading can go on behind what an error is about, as the error itself says."""
    for name in ("next_offset", "next"):
        if name in error.details:
            return int(error.details[name])
    found = _GOES_ON.search(error.message)
    return int(found[1]) if found else None


class _SliceWalk:
    def __init__(
        self,
        piece: Slice,
        options: ReadOptions,
        link: ReconnectingConnection,
        checks: StretchChecks,
        *,
        is_first: bool,
    ) -> None:
        self._piece = piece
        self._fetch_bytes = options.fetch_bytes
        self._link = link
        self._checks = checks
        self._offset = piece.start
        self._takes_straddling = is_first
        self._has_begun = False

    def run(self) -> StretchReport:
        is_gone = False
        while self._offset < self._piece.stop and not is_gone:
            try:
                self._take(*self._fetch())
            except CorruptData as error:
                behind = max(self._offset + 1, goes_on_at(error) or 0)
                self._pass_damage(min(behind, self._piece.stop), error.message)
            except OffsetOutOfRange:
                self._pass_removed()
            except (TopicNotFound, PartitionNotFound):
                is_gone = True
        report = self._checks.finish()
        report.is_gone = is_gone
        return report

    def _fetch(self) -> tuple[FetchedPart, memoryview]:
        part = FetchPart(self._piece.topic_id, self._piece.partition, self._offset, self._fetch_bytes)
        reply = self._link.call(Fetch([part], _WAIT_MS, 1, self._fetch_bytes, False))
        if not isinstance(reply.answer, Fetched) or len(reply.answer.parts) != 1:
            raise unexpected(reply.answer)
        [answer] = reply.answer.parts
        if answer.error is not None:
            raise error_from_wire(answer.error.code, answer.error.message, answer.error.retryable)
        return answer, reply.payload

    def _take(self, part: FetchedPart, payload: memoryview) -> None:
        if not payload:
            self._find_end(part)
            return
        begun_at = self._offset
        try:
            for position, header in split_frames(payload):
                if header.base_offset >= self._piece.stop:
                    self._offset = self._piece.stop
                    return
                self._offset = max(self._offset, header.next_offset)
                if not self._has_begun and header.base_offset < self._piece.start:
                    if not self._takes_straddling or header.next_offset <= self._piece.start:
                        continue
                    self._checks.begin_at(header.base_offset)
                self._has_begun = True
                frame = payload[position : position + header.frame_bytes]
                is_good = body_crc(frame, frame[HEADER_BYTES:]) == header.body_crc
                self._checks.frame(header, is_good=is_good)
            problem = "the broker answers with a part of a frame"
        except InvalidFrame as error:
            problem = error.message
        if self._offset == begun_at:
            check_version(f"{self._piece.topic}-{self._piece.partition}", payload[:3])
            self._pass_damage(begun_at + 1, problem)

    def _pass_damage(self, behind: int, problem: str) -> None:
        self._has_begun = True
        self._checks.damage(behind, problem)
        self._offset = behind

    def _pass_removed(self) -> None:
        """Retention was faster, or the log lost its end."""
        piece = self._piece
        reply = self._link.call(ListOffsets([OffsetPart(piece.topic_id, piece.partition, EARLIEST)], False))
        if not isinstance(reply.answer, Offsets):
            raise unexpected(reply.answer)
        earliest = reply.answer.offsets[0].offset
        if earliest > self._offset:
            self._checks.removed(earliest)
            self._offset = earliest
            self._has_begun = True
        else:
            self._lose_end(self._offset)

    def _find_end(self, part: FetchedPart) -> None:
        """There is nothing more: the slice ends in offsets without frames, or the log has become shorter."""
        if part.high_watermark >= self._piece.stop:
            self._offset = self._piece.stop
        else:
            self._lose_end(part.high_watermark)

    def _lose_end(self, end: int) -> None:
        self._checks.lost(self._piece.stop, f"the partition ends at {end} now, and had more when the audit began")
        self._offset = self._piece.stop
