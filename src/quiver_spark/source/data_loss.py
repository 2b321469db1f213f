"""Messages that were removed before they were read: an error that names them, or a warning in the log."""

import logging

from quiver.model.errors import OffsetOutOfRange
from quiver_spark.source.slices import Slice

_logger = logging.getLogger("quiver_spark")


def lost(slice_: Slice, stop: int, why: str, *, fails: bool) -> None:
    """The offsets of a slice from its start to below `stop` cannot be read."""
    gone = slice_._replace(stop=stop)
    verb = "is" if gone.offsets == 1 else "are"
    if fails:
        raise OffsetOutOfRange(
            f"{gone} {verb} gone: {why}; start at {stop}, keep messages longer (retention of the topic),"
            " or set failOnDataLoss to false to continue without them",
            topic=slice_.topic,
            partition=slice_.partition,
            first=slice_.start,
            next=stop,
        )
    _logger.warning("%s %s gone and skipped: %s", gone, verb, why)
