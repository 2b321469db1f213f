"""The current content of a journal: the newest snapshot of its state machine, and every record after it."""

from collections.abc import Callable, Iterator

import msgspec

from quiver.model.errors import CorruptData
from quiver.reader.log_reader import LogReader
from quiver.reader.stored_frames import FrameRange, stored_frames
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.read import open_frame


def replay_journal(log: LogReader, *, restore: Callable[[bytes], None], apply: Callable[[bytes], None]) -> None:
    """Does what the broker does when it starts, but writes nothing. Raises CorruptData if the files are not
    complete."""
    log.refresh()
    try:
        offset = _restored(log, restore)
        for stored in stored_frames(log, FrameRange(offset, log.end_offset, AbortedFrames(()))):
            for record in open_frame(stored.buffer).values():
                apply(record or b"")
    except (msgspec.MsgspecError, ValueError) as error:
        raise _unreadable(log, f"{error}; a newer version of Quiver may have written it") from None
    finally:
        log.close()


def kept_records(log: LogReader) -> Iterator[bytes]:
    """Every record that the files still have, also those that a snapshot covers."""
    log.refresh()
    try:
        for stored in stored_frames(log, FrameRange(log.start_offset, log.end_offset, AbortedFrames(()))):
            yield from (record or b"" for record in open_frame(stored.buffer).values())
    finally:
        log.close()


def _restored(log: LogReader, restore: Callable[[bytes], None]) -> int:
    """The offset of the first record that the newest complete snapshot does not cover."""
    snapshot = log.newest_snapshot(log.end_offset)
    if snapshot is None:
        if log.start_offset > 0:
            raise _unreadable(log, f"it begins at {log.start_offset} and no snapshot is complete")
        return 0
    offset, data = snapshot
    if data:
        restore(data)
    return offset


def _unreadable(log: LogReader, problem: str) -> CorruptData:
    return CorruptData(
        f"{log.name} cannot be read ({problem}): ask the broker instead of its files",
        where=log.name,
        problem=problem,
        next_offset=log.end_offset,
    )
