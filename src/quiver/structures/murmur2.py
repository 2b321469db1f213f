"""MurmurHash2, 32 bit, with the seed that Kafka's partitioner uses: one key, or a column of keys at once."""

import struct
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_ROTATION = 24
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF

# Fewer keys than this are hashed one by one: numpy's fixed cost is that of about twenty keys.
_FEW_KEYS = 16
# Keys longer than this are hashed one by one: in a column, every further four bytes cost a pass over all long keys.
_COLUMN_KEY_BYTES = 256
# Hashes of single keys that are not longer are remembered: many producers send the same few keys again and again.
_REMEMBERED_KEYS, _REMEMBERED_BYTES = 4_096, 64

Hashes = npt.NDArray[np.uint32]


def murmur2(key: bytes) -> int:
    """The hash of a key, from 0 to 2**32 - 1."""
    length = len(key)
    word_count = length >> 2
    if length > _COLUMN_KEY_BYTES:
        words = _mixed(np.frombuffer(key, "<u4", word_count)).tolist()
    else:
        words = [_mix(word) for word in struct.unpack_from(f"<{word_count}I", key)]
    value = _SEED ^ length
    for word in words:
        value = (value * _MULTIPLIER & _MASK) ^ word
    tail = key[word_count << 2 :]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    value ^= value >> 13
    value = value * _MULTIPLIER & _MASK
    return value ^ (value >> 15)


_remembered_murmur2 = lru_cache(maxsize=_REMEMBERED_KEYS)(murmur2)


def partition_for(key: bytes, partition_count: int) -> int:
    """The partition in which a Kafka client would put this key."""
    hashed = murmur2(key) if len(key) > _REMEMBERED_BYTES else _remembered_murmur2(key)
    return (hashed & _POSITIVE) % partition_count


def partitions_for(keys: pa.Array, partition_count: int) -> npt.NDArray[np.int32]:
    """The partition of each key of a binary array without nulls, as `partition_for` would say."""
    positive = murmur2_column(keys) & np.uint32(_POSITIVE)
    return (positive % np.uint32(partition_count)).astype(np.int32)


def murmur2_column(keys: pa.Array) -> Hashes:
    """The hash of each key of a binary array (or one that casts to it) without nulls."""
    keys = keys.cast(pa.binary())
    count = len(keys)
    if keys.null_count:
        raise ValueError("null has no hash: take the rows without a key out first")
    if count < _FEW_KEYS:
        return np.array([murmur2(key) for key in keys.to_pylist()], np.uint32)
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, count + 1, keys.offset * 4).astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    # Padding lets the word at the last byte be read whole; the bytes after a key are masked away.
    data = np.zeros(int(offsets[-1]) + 4, np.uint8)
    if data_buffer is not None:
        data[:-4] = np.frombuffer(data_buffer, np.uint8, int(offsets[-1]))
    hashes = _hash_rows(data, starts, np.minimum(lengths, _COLUMN_KEY_BYTES), lengths)
    for row in np.flatnonzero(lengths > _COLUMN_KEY_BYTES).tolist():
        hashes[row] = murmur2(data[offsets[row] : offsets[row + 1]].tobytes())
    return hashes


def _hash_rows(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    spans: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> Hashes:
    """Hashes data[start : start + span] of every row, a word of all rows at a time, longest rows first."""
    # A word at every byte position; numpy gathers from such an unaligned view correctly.
    words: npt.NDArray[np.uint32] = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    word_counts = spans >> 2
    order = np.argsort(-word_counts, kind="stable")
    positions = starts[order]
    falling = -word_counts[order]
    values = (np.uint32(_SEED) ^ lengths[order].astype(np.uint32)).astype(np.uint32)
    multiplier = np.uint32(_MULTIPLIER)
    for index in range(int(-falling[0])):
        active = int(np.searchsorted(falling, -index, side="left"))
        word = _mixed(words[positions[:active] + 4 * index])
        values[:active] = values[:active] * multiplier ^ word
    tails = (spans & 3)[order]
    rows = np.flatnonzero(tails)
    mask = (np.uint32(1) << (8 * tails[rows]).astype(np.uint32)) - np.uint32(1)
    tail = words[positions[rows] - 4 * falling[rows]] & mask
    values[rows] = (values[rows] ^ tail) * multiplier
    values ^= values >> np.uint32(13)
    values *= multiplier
    values ^= values >> np.uint32(15)
    hashes = np.empty_like(values)
    hashes[order] = values
    return hashes


def _mix(word: int) -> int:
    word = word * _MULTIPLIER & _MASK
    word ^= word >> _ROTATION
    return word * _MULTIPLIER & _MASK


def _mixed(words: Hashes) -> Hashes:
    multiplier = np.uint32(_MULTIPLIER)
    mixed = words * multiplier
    mixed ^= mixed >> np.uint32(_ROTATION)
    mixed *= multiplier
    return mixed
