"""Turns an error of the operating system about a write into an error of the catalogue."""

import errno

from quiver.model.errors import DiskFull, PartitionOffline, QuiverError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE}


def is_lack_of_room(error: OSError) -> bool:
    """Whether the same write may succeed later: the disk, a quota or the table of open files is full."""
    return error.errno in _NO_ROOM


def storage_error(what: str, error: OSError) -> QuiverError:
    if is_lack_of_room(error):
        return DiskFull(problem=f"{(error.strerror or str(error)).lower()} for {what}")
    return PartitionOffline(partition=what, problem=str(error))
