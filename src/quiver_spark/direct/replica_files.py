"""The files of a cluster's node on this machine, as far as its leader has the same.

A replica may have frames that were never committed: what a leader wrote before it was deposed, until the next leader
has cut them off. So the last frame of a slice is compared with the leader's. Replicas that have a frame of the same
offset and epoch have the same frames before it: one leader writes in an epoch, and followers take nothing of an epoch
before their logs agree with its leader's.
"""

from functools import lru_cache
from pathlib import Path

from quiver.model.errors import QuiverError
from quiver.reader.data_directory import partition_log
from quiver.reader.log_reader import LogReader
from quiver.reader.stored_frames import FrameRange, stored_frames
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.header import FrameHeader
from quiver.system.clock import SystemClock
from quiver_spark.broker_client import broker_client
from quiver_spark.direct.broker_files import files_at
from quiver_spark.direct.known_files import KnownFiles
from quiver_spark.direct.own_addresses import is_own_address
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import BrokerFiles, Replica, Slice

_EVERYTHING = 2**62


def log_of_replica(slice_: Slice, options: ReadOptions) -> LogReader | None:
    """One whose files on this machine have the slice; None if there is none."""
    if slice_.offsets and options.local_files:
        for replica in slice_.replicas:
            log = _log_in(_known_files(replica).now(), slice_)
            if log is not None and _agrees(log, slice_, options):
                return log
    return None


@lru_cache(maxsize=1024)
def _known_files(replica: Replica) -> KnownFiles:
    """Of this process."""

    def find() -> BrokerFiles | None:
        return files_at(replica.http_url) if is_own_address(replica.address) else None

    return KnownFiles(find, SystemClock())


def _log_in(files: BrokerFiles | None, slice_: Slice) -> LogReader | None:
    if files is None:
        return None
    log_id = partition_log(slice_.topic_id, slice_.partition)
    for directory in Path(files.path, "logs", "units").glob(f"*/{log_id}"):
        return LogReader(directory, f"{slice_.topic}-{slice_.partition}")
    return None


def _agrees(log: LogReader, slice_: Slice, options: ReadOptions) -> bool:
    """Whether everything below the end of the slice is what its leader has."""
    try:
        theirs = _leaders_frame(slice_, options)
        return theirs is not None and theirs == _first_frame(log, slice_.stop - 1)
    except (OSError, QuiverError):  # reading through the broker says what is wrong
        return False


def _leaders_frame(slice_: Slice, options: ReadOptions) -> FrameHeader | None:
    client = broker_client(options.bootstrap, options.timeout_seconds)
    fetched = client.frames.fetch(
        slice_.topic_id,
        slice_.partition,
        slice_.stop - 1,
        max_bytes=1,
        isolation="read_uncommitted",
        headers_only=True,
    )
    return next((header for _, header, _ in fetched.headers()), None)


def _first_frame(log: LogReader, offset: int) -> FrameHeader | None:
    log.refresh_files()
    wanted = FrameRange(offset, _EVERYTHING, AbortedFrames(()), lambda header: False)
    try:
        return next((stored.header for stored in stored_frames(log, wanted)), None)
    finally:
        log.close()
