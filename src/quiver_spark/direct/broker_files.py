"""The files of a broker that runs on the same machine: found by asking it, read as long as they have what is wanted.

A slice of a read through the broker ends where readers of the broker may see everything, and what can be seen is in
the segment files. Whatever files cannot tell is asked of the broker: what became of transactions, and everything from
the first problem on.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import quiver
from quiver.model.errors import QuiverError
from quiver.reader.data_directory import DataDirectory, partition_log
from quiver.reader.log_reader import LogReader
from quiver.reader.running_broker import running_broker
from quiver.reader.stored_frame import StoredFrame
from quiver.reader.stored_frames import FrameRange, stored_frames
from quiver.records.aborted_frames import AbortedFrames
from quiver_spark.source.broker_frames import WantsBody, broker_frames
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import BrokerFiles, Slice

_SECONDS = 2.0


def files_of_client(client: quiver.Client) -> BrokerFiles | None:
    """Those of the broker that a client is connected to, if it runs on this machine and this user may read them."""
    try:
        return files_at(client.http_url())
    except QuiverError:
        return None


def are_here(files: BrokerFiles) -> bool:
    """Whether the same broker uses these files on this machine."""
    return _state(files.path) == files


def local_frames(
    slice_: Slice, log: LogReader, options: ReadOptions, wants_body: WantsBody | None
) -> Iterator[StoredFrame]:
    """The visible frames with messages of the slice, from files as far as they have them, then from the broker."""
    offset = slice_.start
    try:
        for stored in _stored(slice_, log, wants_body):
            if options.committed and stored.header.is_transactional:
                break
            yield stored
            offset = stored.header.next_offset
    except (OSError, QuiverError):  # the broker knows what is wrong
        pass
    if offset < slice_.stop:
        yield from broker_frames(slice_._replace(start=offset), options, wants_body)


def log_of_broker(slice_: Slice) -> LogReader | None:
    """The log of a broker that runs alone, if it still runs on this machine."""
    if slice_.files is None or not are_here(slice_.files):
        return None
    directory = DataDirectory(slice_.files.path).log_directory(partition_log(slice_.topic_id, slice_.partition))
    return LogReader(directory, f"{slice_.topic}-{slice_.partition}")


def _stored(slice_: Slice, log: LogReader, wants_body: WantsBody | None) -> Iterator[StoredFrame]:
    log.refresh_files()
    wanted = FrameRange(slice_.start, slice_.stop, AbortedFrames(()), wants_body or (lambda header: True))
    try:
        yield from stored_frames(log, wanted)
    finally:
        log.close()


def files_at(url: str | None) -> BrokerFiles | None:
    """The same for the broker with this HTTP interface."""
    try:
        if url is None:
            return None
        with urlopen(f"{url}/node", timeout=_SECONDS) as answer:  # noqa: S310 - it is that of a broker
            node = json.loads(answer.read())
        return None if node["data_dir"] is None else _state(node["data_dir"]["path"], asked=int(node["pid"]))
    except (OSError, ValueError, KeyError):
        return None


def _state(path: str, *, asked: int | None = None) -> BrokerFiles | None:
    """The broker that uses the files now. `asked`: it must have this process, itself or as one of its workers."""
    state = running_broker(Path(path))
    if state is None or not os.access(Path(path) / "logs", os.R_OK | os.X_OK):
        return None
    processes = [state["pid"], *(worker["pid"] for worker in state.get("workers", ()))]
    if asked is not None and asked not in processes:
        return None
    return BrokerFiles(path, int(state["pid"]), int(state["started_at_ms"]))
