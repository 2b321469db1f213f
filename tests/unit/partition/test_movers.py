"""Producers that are the broker's own moves: what was passed is a repeat, all else is taken."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.model.limits import FRAMES_REMEMBERED, PRODUCER_REMEMBERED_MS, PRODUCERS_REMEMBERED, SEQUENCE_LIMIT
from quiver.partition.producers import FIRST_RELAY_ID, ProducerTable
from quiver.records.build import build_frame
from quiver.records.header import FrameHeader, unpack_header

MOVER = FIRST_RELAY_ID | 5 << 18


def moved(sequence: int, count: int, offset: int = 0, *, mover: int = MOVER, time_ms: int = 0) -> FrameHeader:
    frame = build_frame(
        [b""] * count, timestamp_ms=0, producer_id=mover, producer_epoch=0, base_sequence=sequence % SEQUENCE_LIMIT
    )
    return unpack_header(frame)._replace(base_offset=offset, append_time_ms=time_ms)


@given(
    st.integers(0, SEQUENCE_LIMIT - 1),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=40),
    st.data(),
)
def test_a_move_is_taken_once_however_old(first: int, moves: list[tuple[int, int]], data: st.DataObject) -> None:
    """Gaps (moves that found nothing to move) are no hindrance, and sequences wrap."""
    table, sequence, offset, sent = ProducerTable(), first, 100, list[FrameHeader]()
    for count, gap in moves:
        header = moved(sequence, count, offset)
        assert table.find_repeat(header) is None
        table.record(header)
        sent.append(header)
        sequence, offset = sequence + count + gap, offset + count
        if data.draw(st.booleans()):
            table = ProducerTable.decode(table.encode())
        place = data.draw(st.integers(0, len(sent) - 1))
        found = table.find_repeat(sent[place])
        assert found is not None
        is_remembered = place >= len(sent) - FRAMES_REMEMBERED
        assert found.base_offset == (sent[place].base_offset if is_remembered else -1)


def test_a_part_of_a_passed_move_is_a_repeat() -> None:
    table = ProducerTable()
    table.record(moved(10, 5))
    for sequence in range(10, 15):
        assert table.find_repeat(moved(sequence, 1)) is not None
    assert table.find_repeat(moved(15, 1)) is None


def test_a_target_that_remembers_nothing_takes_what_comes() -> None:
    assert ProducerTable().find_repeat(moved(1_000_000, 3)) is None


def test_movers_are_never_forgotten() -> None:
    table = ProducerTable()
    table.record(moved(0, 3, time_ms=0))
    table.expire(PRODUCER_REMEMBERED_MS * 1000)
    for producer in range(PRODUCERS_REMEMBERED + 5):
        table.record(moved(0, 1, mover=producer))
    assert table.find_repeat(moved(0, 3)) is not None


def test_many_movers_take_no_room_from_other_producers() -> None:
    table, movers = ProducerTable(), range(MOVER, MOVER + PRODUCERS_REMEMBERED + 5)
    for mover in movers:
        table.record(moved(0, 1, mover=mover))
    table.record(moved(0, 1, mover=3))
    assert all(table.get(mover) is not None for mover in movers)
    assert table.get(3) is not None


def test_a_move_whose_write_failed_is_no_repeat() -> None:
    table = ProducerTable()
    table.record(moved(0, 3))
    before = table.get(MOVER)
    table.record(moved(3, 2))
    table.put_back(MOVER, before)
    assert table.find_repeat(moved(3, 2)) is None
    assert table.find_repeat(moved(0, 3)) is not None
