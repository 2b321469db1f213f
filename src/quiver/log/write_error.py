"""What the operating system says about a write, as an error of the catalogue."""

import errno

from quiver.model.errors import DiskFull, PartitionOffline, QuiverError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def is_lack_of_room(error: OSError) -> bool:
    return error.errno in _NO_ROOM


def storage_error(what: str, error: OSError) -> QuiverError:
    if is_lack_of_room(error):
        return DiskFull(problem=f"no space left on the device for {what}")
    return PartitionOffline(partition=what, problem=str(error))
