"""Which frames of a log committed readers take, against the table that the broker itself keeps."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.partition.transactions import Marker, TransactionTable
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.header import CONTROL, TRANSACTIONAL, FrameHeader


def _header(offset: int, producer: int, attributes: int) -> FrameHeader:
    return FrameHeader(2, 0, offset, 1, 0, 0, 8, 8, 1, 0, producer, 0, 0, 0, 0, 0, attributes, 0)


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["data", "plain", "commit", "abort"])), max_size=40)


@given(STEPS, st.integers(0, 40), st.integers(0, 40))
def test_the_rule_agrees_with_the_broker(steps: list[tuple[int, str]], start: int, length: int) -> None:
    table, log = TransactionTable(), []
    for offset, (producer, kind) in enumerate(steps):
        attributes = {"data": TRANSACTIONAL, "plain": 0}.get(kind, TRANSACTIONAL | CONTROL)
        header = _header(offset, producer, attributes)
        table.record(header, Marker(kind == "commit", 0) if kind in ("commit", "abort") else None)
        log.append(header)
    first_open = table.first_open_offset()
    stable = len(log) if first_open is None else first_open
    stop = min(start + length, stable)
    aborted = [(each.producer_id, each.first_offset) for each in table.aborted_within(start, stop)]
    left_out = AbortedFrames(aborted)
    for header in log[start:stop]:
        assert left_out.hides(header) == (header.is_control or table.is_aborted(header))
