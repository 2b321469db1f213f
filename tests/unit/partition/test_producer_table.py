"""The producer table against a model that remembers everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import OutOfSequence, ProducerFenced, UnknownProducer
from quiver.model.limits import FRAMES_REMEMBERED, PRODUCER_REMEMBERED_MS, PRODUCERS_REMEMBERED, SEQUENCE_LIMIT
from quiver.partition.producers import ProducerTable
from quiver.records.header import FrameHeader


def frame(producer: int, epoch: int, sequence: int, count: int, offset: int = 0, time_ms: int = 0) -> FrameHeader:
    return FrameHeader(
        priority=2,
        body_crc=0,
        base_offset=offset,
        leader_epoch=1,
        header_crc=0,
        append_time_ms=time_ms,
        length=0,
        uncompressed_length=0,
        record_count=count,
        last_offset_delta=count - 1,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        min_timestamp_ms=0,
        max_timestamp_ms=0,
        schema_id=0,
        attributes=0,
        columns=0,
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=60), st.data())
def test_repeats_within_the_window_get_the_original_offset(counts: list[int], data: st.DataObject) -> None:
    table, sent, sequence, offset = ProducerTable(), [], 0, 100
    for count in counts:
        header = frame(7, 0, sequence, count, offset)
        assert table.find_repeat(header) is None
        table.record(header)
        sent.append(header)
        sequence, offset = sequence + count, offset + count
        repeated = data.draw(st.sampled_from(sent[-FRAMES_REMEMBERED:]))
        found = table.find_repeat(repeated._replace(base_offset=-1))
        assert found is not None
        assert found.base_offset == repeated.base_offset
        assert ProducerTable.decode(table.encode()).find_repeat(repeated) == found


@given(st.integers(1, 1000))
def test_a_gap_is_refused_and_changes_nothing(gap: int) -> None:
    table = ProducerTable()
    table.record(frame(7, 0, 0, 10))
    with pytest.raises(OutOfSequence):
        table.find_repeat(frame(7, 0, 10 + gap, 1))
    assert table.find_repeat(frame(7, 0, 10, 1)) is None


def test_a_repeat_older_than_the_window_is_refused_not_stored_again() -> None:
    table = ProducerTable()
    for index in range(FRAMES_REMEMBERED + 1):
        table.record(frame(7, 0, index, 1, index))
    with pytest.raises(OutOfSequence):
        table.find_repeat(frame(7, 0, 0, 1))


def test_sequences_wrap() -> None:
    table = ProducerTable()
    table.record(frame(7, 0, SEQUENCE_LIMIT - 3, 5, 40))
    assert table.find_repeat(frame(7, 0, 2, 1)) is None
    with pytest.raises(OutOfSequence):
        table.find_repeat(frame(7, 0, SEQUENCE_LIMIT - 2, 1))


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    table = ProducerTable()
    table.record(frame(7, 0, 0, 10))
    with pytest.raises(OutOfSequence):
        table.find_repeat(frame(7, 1, 10, 1))
    assert table.find_repeat(frame(7, 1, 0, 1)) is None
    table.record(frame(7, 1, 0, 1))
    with pytest.raises(ProducerFenced):
        table.find_repeat(frame(7, 0, 10, 1))


def test_an_unknown_producer_must_begin_at_zero() -> None:
    with pytest.raises(UnknownProducer):
        ProducerTable().find_repeat(frame(7, 0, 5, 1))


def test_without_a_producer_id_everything_is_new() -> None:
    table = ProducerTable()
    header = frame(-1, -1, -1, 3)
    table.record(header)
    assert table.find_repeat(header) is None
    assert len(table) == 0


def test_silent_producers_are_forgotten_and_their_number_is_bounded() -> None:
    table = ProducerTable()
    table.record(frame(1, 0, 0, 1, time_ms=0))
    table.record(frame(2, 0, 0, 1, time_ms=PRODUCER_REMEMBERED_MS))
    table.expire(PRODUCER_REMEMBERED_MS + 1)
    assert table.get(1) is None
    assert table.get(2) is not None
    for producer in range(PRODUCERS_REMEMBERED + 5):
        table.record(frame(10 + producer, 0, 0, 1))
    assert len(table) == PRODUCERS_REMEMBERED
    assert table.get(2) is None
    assert table.get(10 + PRODUCERS_REMEMBERED + 4) is not None


def test_a_failed_write_leaves_no_trace() -> None:
    table = ProducerTable()
    table.record(frame(7, 0, 0, 10, 100))
    before = table.get(7)
    table.record(frame(7, 0, 10, 5, 110))
    table.put_back(7, before)
    assert table.find_repeat(frame(7, 0, 10, 5)) is None
    table.record(frame(8, 0, 0, 1))
    table.put_back(8, None)
    assert table.get(8) is None
