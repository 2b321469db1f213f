"""Epochs of a log, by what every log tells."""

from quiver.replication.follower import EpochEnd
from quiver.storage.port import Log


def last_epoch(log: Log) -> EpochEnd:
    """Of its last frame, and where that ends; -1 for a log without frames."""
    last = log.last_frame
    return EpochEnd(last.epoch, last.end_offset)


async def last_epoch_up_to(log: Log, at_most: int) -> EpochEnd:
    """The largest epoch up to one that has frames in a log, and where they end; -1 when there are none.

    The ends rise with the epochs, so it is the first epoch that has the same end.
    """
    last = last_epoch(log)
    if last.epoch <= at_most:
        return last
    end = await log.end_offset_of_epoch(at_most)
    if end <= await log.end_offset_of_epoch(-1):
        return EpochEnd(-1, end)
    low, high = -1, at_most
    while high - low > 1:
        middle = (low + high) // 2
        if await log.end_offset_of_epoch(middle) == end:
            high = middle
        else:
            low = middle
    return EpochEnd(high, end)
