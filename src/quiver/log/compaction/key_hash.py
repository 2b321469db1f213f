"""128-bit hashes for a column of keys.

Short keys get four multilinear hashes of 32 bits: the sum of the key's words, each times a random 64-bit number, of
which the upper half is kept. For any two keys they are all equal with a chance of 2**-128, whatever the keys are, as
long as the numbers come from a secret seed. Longer keys get a keyed BLAKE2b.
"""

from hashlib import blake2b, shake_256

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
SEED_BYTES = 32
_COLUMN_KEY_BYTES = 256
_WORD_BYTES = 4
_LANES = 4


class KeyHash:
    """Two halves of 64 bits for each key; equal keys have equal halves."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        rows = _COLUMN_KEY_BYTES // _WORD_BYTES + 2
        numbers = np.frombuffer(shake_256(seed).digest(rows * _LANES * 8), "<u8")
        self._factors = numbers.reshape(rows, _LANES)

    def halves(self, keys: pa.Array) -> tuple[Words, Words]:
        """For a binary array without nulls."""
        count = len(keys)
        _, offset_buffer, data_buffer = keys.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32, count + 1, keys.offset * 4)
        lengths = np.diff(offsets)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest == longest <= _COLUMN_KEY_BYTES:
            return self._short(data[offsets[0] : offsets[-1]].reshape(count, longest))
        return self._by_length(data, offsets, lengths)

    def _by_length(
        self,
        data: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int32],
        lengths: npt.NDArray[np.int32],
    ) -> tuple[Words, Words]:
        first, second = np.empty(len(lengths), np.uint64), np.empty(len(lengths), np.uint64)
        order = np.argsort(lengths, kind="stable")
        ends = np.flatnonzero(np.diff(lengths[order])) + 1
        for rows in np.split(order, ends):
            length = int(lengths[rows[0]])
            if length > _COLUMN_KEY_BYTES:
                for row in rows.tolist():
                    first[row], second[row] = self._long(data[offsets[row] : offsets[row + 1]])
            else:
                places = offsets[rows].astype(np.int64)[:, None] + np.arange(length)
                first[rows], second[rows] = self._short(data[places])
        return first, second

    def _short(self, keys: npt.NDArray[np.uint8]) -> tuple[Words, Words]:
        """For keys of one length, a row each."""
        count, length = keys.shape
        word_count = -(-length // _WORD_BYTES)
        if length % _WORD_BYTES:
            padded = np.zeros((count, word_count * _WORD_BYTES), np.uint8)
            padded[:, :length] = keys
            keys = padded
        words = np.ascontiguousarray(keys).view("<u4") if length else np.zeros((count, 0), np.uint32)
        sums = [np.full(count, start) for start in self._factors[0] + self._factors[1] * np.uint64(length)]
        for place in range(word_count):
            word = words[:, place].astype(np.uint64)
            for lane, factor in enumerate(self._factors[2 + place]):
                sums[lane] += word * factor
        return _joined(sums[0], sums[1]), _joined(sums[2], sums[3])

    def _long(self, key: npt.NDArray[np.uint8]) -> Words:
        return np.frombuffer(blake2b(key.tobytes(), digest_size=16, key=self._seed).digest(), "<u8")


def _joined(upper: Words, lower: Words) -> Words:
    """The upper halves of both sums."""
    return upper & np.uint64(0xFFFFFFFF << 32) | lower >> np.uint64(32)
