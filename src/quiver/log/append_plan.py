"""What every log refuses, whatever it stores frames in."""

from collections.abc import Sequence

from quiver.model.errors import InvalidRequest, OffsetOutOfRange, StaleEpoch
from quiver.records.header import HEADER_BYTES, StampedFrame


class AppendPlan:
    """The checked facts about a run of frames: how large they are and where the log stands behind them."""

    __slots__ = ("append_time_ms", "end_offset", "epoch", "size_bytes")

    def __init__(self, frames: Sequence[StampedFrame], *, end_offset: int, epoch: int, append_time_ms: int) -> None:
        size = 0
        for header, _, body in frames:
            if header.base_offset < end_offset:
                raise InvalidRequest(problem=f"offset {header.base_offset} is below the end of the log, {end_offset}")
            if header.leader_epoch < epoch:
                raise StaleEpoch(epoch=header.leader_epoch, current=epoch)
            if header.append_time_ms < append_time_ms:
                raise InvalidRequest(problem=f"append time {header.append_time_ms} is before {append_time_ms}")
            if len(body) != header.length:
                raise InvalidRequest(problem=f"a body of {len(body)} bytes, its header says {header.length}")
            end_offset = header.base_offset + header.last_offset_delta + 1
            epoch = header.leader_epoch
            append_time_ms = header.append_time_ms
            size += header.length
        self.size_bytes = size + HEADER_BYTES * len(frames)
        self.end_offset = end_offset
        self.epoch = epoch
        self.append_time_ms = append_time_ms


def out_of_range(log_id: str, offset: int, earliest: int, latest: int) -> OffsetOutOfRange:
    topic, _, partition = log_id.rpartition("/")
    return OffsetOutOfRange(
        offset=offset, topic=topic or "log", partition=partition, earliest=earliest, latest=latest
    )
