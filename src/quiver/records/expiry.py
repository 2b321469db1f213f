"""Which messages are expired: one rule for queues, readers and pages."""

import numpy as np
import numpy.typing as npt

from quiver.records.arrow_arrays import number_scalar, to_numbers
from quiver.records.columns import EXPIRES_AT
from quiver.records.header import COLUMN_EXPIRES_AT, FrameHeader
from quiver.records.read import OpenFrame

Past = npt.NDArray[np.bool_]


def may_be_past(header: FrameHeader, now_ms: int, ttl_ms: int | None) -> bool:
    """Whether the frame may have expired messages at all."""
    return bool(header.columns & COLUMN_EXPIRES_AT) or _is_past_in_general(header, now_ms, ttl_ms)


def past_rows(frame: OpenFrame, now_ms: int, ttl_ms: int | None) -> Past | None:
    """By row, whether it is expired; None: no message is.

    A message's own time to live comes first; otherwise the topic's counts, from the append time on.
    """
    in_general = _is_past_in_general(frame.header, now_ms, ttl_ms)
    own = frame.column(EXPIRES_AT)
    if own is None:
        return np.full(len(frame), True) if in_general else None
    past: Past = to_numbers(own.fill_null(number_scalar(now_ms if in_general else now_ms + 1))) <= now_ms
    return past if past.any() else None


def _is_past_in_general(header: FrameHeader, now_ms: int, ttl_ms: int | None) -> bool:
    return ttl_ms is not None and header.append_time_ms + ttl_ms <= now_ms
