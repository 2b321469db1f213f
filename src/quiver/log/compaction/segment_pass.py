"""A pass over segment files: surveys them, then writes the new segments, one after the other."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import google_crc32c
import pyarrow as pa

from quiver.log.compaction.grouping import groups
from quiver.log.compaction.job import Job, Report, Rewritten, Scope, Shape
from quiver.log.compaction.latest_keys import HashCollision
from quiver.log.compaction.rewriting import surviving_frames
from quiver.log.compaction.source import FileSource, Source
from quiver.log.compaction.survey import SegmentSurvey, Survey, survey
from quiver.log.files.open_files import OpenFiles
from quiver.log.segment.segment import Segment
from quiver.model.limits import MIB
from quiver.records.header import StampedFrame
from quiver.system.files import Files

NEW_SEGMENTS = "compaction"
"""The directory inside the log's directory for new segments."""
_WRITTEN_BYTES = 4 * MIB
_SEEDS_TRIED = 4


def run_pass(job: Job, files: Files) -> Iterator[Report]:
    """Reports come as early as possible: a segment may replace old ones while the next one is written."""
    directory = Path(job.directory)
    sources = [FileSource(files, directory, each.base_offset, each.size, each.is_sound) for each in job.segments]
    result = survey_again(sources, job.scope, job.seed)
    yield result.totals
    if job.dry_run:
        return
    target = directory / NEW_SEGMENTS
    for group in groups(result.segments, result.totals.damaged, job.shape):
        yield _write_group(group, target, files, job.shape)


def survey_again(sources: Sequence[Source], scope: Scope, seed: bytes) -> Survey:
    """A survey with a secret seed; if keys collide, with further seeds made from it."""
    for _ in range(_SEEDS_TRIED - 1):
        try:
            return survey(sources, scope, seed)
        except HashCollision:
            seed = sha256(seed).digest()
    return survey(sources, scope, seed)


def _write_group(group: Sequence[SegmentSurvey], target: Path, files: Files, shape: Shape) -> Rewritten:
    """The new segment with its index; both are on disk when this returns."""
    open_files = OpenFiles(files)
    segment = Segment(target, group[0].source.base_offset, open_files, size=0, index_size=0)
    files.make_directory(target)
    fd = open_files.pin(segment.file, create=True)
    try:
        crc = 0
        for frames in _batches(surviving_frames(group, frame_bytes=shape.frame_bytes)):
            segment.write(frames)
            segment.commit(frames)
            segment.index.flush()
            for _, header_bytes, body in frames:
                crc = google_crc32c.extend(crc, bytes(header_bytes))
                crc = google_crc32c.extend(crc, body if isinstance(body, bytes) else pa.py_buffer(body))
        files.fdatasync(fd)
        files.sync_directory(target)
    finally:
        open_files.unpin(segment.file)
        segment.forget()
    return Rewritten(replaced=tuple(each.source.base_offset for each in group), size=segment.size, crc=crc)


def _batches(frames: Iterator[StampedFrame]) -> Iterator[list[StampedFrame]]:
    batch: list[StampedFrame] = []
    size = 0
    for frame in frames:
        batch.append(frame)
        size += frame.header.frame_bytes
        if size >= _WRITTEN_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
