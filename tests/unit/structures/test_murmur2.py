"""The hash is Kafka's, for one key and for a column of them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quiver.structures.murmur2 import murmur2, murmur2_column, partition_for, partitions_for

MASK = 0xFFFFFFFF


def murmur2_by_the_book(data: bytes) -> int:
    """Austin Appleby's MurmurHash2, byte by byte, with Kafka's seed."""
    m, h, at = 0x5BD1E995, (0x9747B28C ^ len(data)) & MASK, 0
    while len(data) - at >= 4:
        k = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
        k = k * m & MASK
        k ^= k >> 24
        k = k * m & MASK
        h = (h * m & MASK) ^ k
        at += 4
    rest = len(data) - at
    if rest >= 3:
        h ^= data[at + 2] << 16
    if rest >= 2:
        h ^= data[at + 1] << 8
    if rest >= 1:
        h = (h ^ data[at]) * m & MASK
    h ^= h >> 13
    h = h * m & MASK
    return h ^ h >> 15


# The values that the tests of Kafka's own clients name.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_the_hashes_of_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32
    assert partition_for(key, 7) == (signed % 2**32 & 0x7FFFFFFF) % 7


@given(st.binary(max_size=40) | st.binary(min_size=250, max_size=300))
@example(b"")
def test_one_key(key: bytes) -> None:
    assert murmur2(key) == murmur2_by_the_book(key)


@given(
    st.lists(st.binary(max_size=40) | st.binary(min_size=250, max_size=270), max_size=60),
    st.integers(1, 10_000),
    st.integers(0, 5),
)
def test_a_column_is_hashed_as_its_keys_are(keys: list[bytes], partition_count: int, skipped: int) -> None:
    column = pa.array(keys, pa.binary())[skipped:]
    expected = [murmur2_by_the_book(key) for key in keys[skipped:]]
    assert murmur2_column(column).tolist() == expected
    partitions = partitions_for(column, partition_count)
    assert partitions.dtype == np.int32
    assert partitions.tolist() == [partition_for(key, partition_count) for key in keys[skipped:]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.large_string()])
def test_other_types_of_text_and_bytes(kind: pa.DataType) -> None:
    words = [f"wort-{number}-ü" for number in range(50)]
    assert murmur2_column(pa.array(words).cast(kind)).tolist() == [murmur2(word.encode()) for word in words]


def test_keys_of_no_bytes() -> None:
    assert murmur2_column(pa.array([b""] * 20)).tolist() == [murmur2(b"")] * 20


def test_a_key_of_a_megabyte_among_short_ones() -> None:
    keys = [b"k%d" % number for number in range(100)] + [bytes(range(256)) * 4096]
    assert murmur2_column(pa.array(keys)).tolist() == [murmur2(key) for key in keys]
    assert murmur2(keys[-1]) == murmur2_by_the_book(keys[-1])


@pytest.mark.parametrize("count", [1, 30])
def test_null_has_no_hash(count: int) -> None:
    with pytest.raises(ValueError, match="null has no hash"):
        partitions_for(pa.nulls(count, pa.binary()), 3)


def test_keys_spread_over_the_partitions() -> None:
    keys = pa.array([b"customer-%d" % number for number in range(10_000)])
    counts = np.bincount(partitions_for(keys, 10), minlength=10)
    assert counts.min() > 800
