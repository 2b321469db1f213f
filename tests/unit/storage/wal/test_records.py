"""Records of the write-ahead log as bytes: whatever a crash leaves of them, only whole ones are read."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.storage.local.wal.record import FORGET, FRAMES, HEADER_BYTES, encode, file_header, read_records

RECORDS = st.lists(
    st.tuples(
        st.sampled_from([FRAMES, FORGET]),
        st.text(max_size=20),
        st.integers(0, 2**62),
        st.integers(0, 2**40),
        st.lists(st.binary(max_size=50), max_size=3),
    ),
    max_size=6,
)


@given(RECORDS, st.integers(1, 2**63))
def test_what_is_written_is_read(records: list[tuple[int, str, int, int, list[bytes]]], number: int) -> None:
    data = file_header(number) + b"".join(_encoded(number, record) for record in records)
    found = [(*record[:4], bytes(record.data)) for record in read_records(memoryview(data + bytes(100)), number)]
    assert found == [(*record[:4], b"".join(record[4])) for record in records]


@given(RECORDS, st.data())
def test_a_damaged_byte_ends_the_file(
    records: list[tuple[int, str, int, int, list[bytes]]], draw: st.DataObject
) -> None:
    encoded = [_encoded(7, record) for record in records]
    data = bytearray(file_header(7) + b"".join(encoded))
    place = draw.draw(st.integers(0, len(data) - 1))
    data[place] ^= draw.draw(st.integers(1, 255))
    end, whole = HEADER_BYTES, 0
    for each in encoded:
        end += len(each)
        whole += end <= place
    expected = 0 if place < HEADER_BYTES else whole
    assert sum(1 for _ in read_records(memoryview(data), 7)) == expected


def test_records_of_an_earlier_use_of_the_file_are_not_read() -> None:
    old = _encoded(3, (FRAMES, "a", 0, 0, [b"old"]))
    new = _encoded(4, (FRAMES, "a", 0, 0, [b"new"]))
    found = list(read_records(memoryview(file_header(4) + new + old), 4))
    assert [bytes(record.data) for record in found] == [b"new"]
    assert not list(read_records(memoryview(file_header(3) + old), 4)), "its header was not written yet"


def _encoded(number: int, record: tuple[int, str, int, int, list[bytes]]) -> bytes:
    kind, log_id, base, position, data = record
    return encode(number, kind, log_id.encode(), base, position, data)
