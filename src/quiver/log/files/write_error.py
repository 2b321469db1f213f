"""Turns an error of the operating system about a write into an error of the catalogue."""

import errno

from quiver.model.errors import DiskFull, PartitionOffline, QuiverError

_NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, *_NO_RESOURCES}


def is_lack_of_resources(error: OSError) -> bool:
    """Whether the process or the machine is short of descriptors or memory, whatever the disk is like."""
    return error.errno in _NO_RESOURCES


def is_lack_of_room(error: OSError) -> bool:
    """Whether the same write may succeed later: the disk, a quota, the table of open files or
    memory is full."""
    return error.errno in _NO_ROOM


def storage_error(what: str, error: OSError) -> QuiverError:
    if is_lack_of_room(error):
        return DiskFull(problem=f"{(error.strerror or str(error)).lower()} for {what}")
    return PartitionOffline(partition=what, problem=str(error))
