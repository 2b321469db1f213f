"""Hashes of keys, and the table of the last row of each key, against a dict."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.log.compaction import latest_keys, survey
from quiver.log.compaction.job import Scope
from quiver.log.compaction.key_hash import KeyHash, Words
from quiver.log.compaction.latest_keys import HashCollision, LatestKeys
from quiver.log.compaction.segment_pass import survey_again
from quiver.log.compaction.source import MemorySource
from unit.log.keyed import keyed_frame

SEED = bytes(range(32))
KEYS = st.lists(st.binary(max_size=9) | st.binary(min_size=250, max_size=300), min_size=1, max_size=30)


def hashes(keys: list[bytes], seed: bytes = SEED) -> list[tuple[int, int]]:
    first, second = KeyHash(seed).halves(pa.array(keys, pa.binary()))
    return list(zip(first.tolist(), second.tolist(), strict=True))


@given(KEYS)
def test_keys_are_equal_exactly_when_their_hashes_are(keys: list[bytes]) -> None:
    found = hashes(keys)
    assert [found.index(each) for each in found] == [keys.index(key) for key in keys]


@given(KEYS)
def test_a_hash_does_not_depend_on_the_neighbours(keys: list[bytes]) -> None:
    assert hashes(keys) == [hashes([key])[0] for key in keys]
    part = pa.array([b"before", *keys, b"behind"], pa.binary())[1:-1]
    first, second = KeyHash(SEED).halves(part)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == hashes(keys)


def test_zeros_and_lengths_count() -> None:
    keys = [b"", b"\0", b"\0\0", b"\0\0\0\0", b"\0\0\0\0\0", b"a", b"a\0", b"a\0\0\0"]
    assert len(set(hashes(keys))) == len(keys)


def test_another_seed_gives_other_hashes() -> None:
    keys = [b"a", b"b" * 300]
    assert not {half for each in hashes(keys) for half in each} & {
        half for each in hashes(keys, bytes(32)) for half in each
    }


def test_half_a_million_keys_do_not_collide() -> None:
    first, second = KeyHash(SEED).halves(pa.array([b"key-%d" % n for n in range(500_000)], pa.binary()))
    assert len(np.unique(first)) == len(np.unique(second)) == 500_000


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=30), max_size=8), st.integers(1, 60))
def test_the_last_row_of_each_key(batches: list[list[int]], gathered: int) -> None:
    gone: list[int] = []
    table = LatestKeys(lambda rows: gone.extend(rows.tolist()))
    last: dict[int, int] = {}
    row = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(latest_keys, "_GATHERED_ROWS", gathered)
        for batch in batches:
            first = np.array(batch, np.uint64) << np.uint64(60) | np.array(batch, np.uint64)
            table.add(first, first + np.uint64(1), np.arange(row, row + len(batch)))
            last |= {key: row + n for n, key in enumerate(batch)}
            row += len(batch)
        table.settle()
    assert sorted(gone) == sorted(set(range(row)) - set(last.values()))
    assert [table.has_more_than(count) for count in (len(last) - 1, len(last))] == [True, False]
    asked = np.arange(50, dtype=np.uint64)
    asked = asked << np.uint64(60) | asked
    assert table.contains(asked, asked + np.uint64(1)).tolist() == [n in last for n in range(50)]


@pytest.mark.parametrize("apart", [False, True])
def test_a_collision_of_the_first_half_is_seen(apart: bool) -> None:
    table = LatestKeys(lambda rows: None)
    hash_of = np.array([7], np.uint64)
    table.add(hash_of, np.array([1], np.uint64), np.array([0]))
    if apart:
        table.settle()
    table.add(hash_of, np.array([2], np.uint64), np.array([1]))
    with pytest.raises(HashCollision):
        table.settle()


class WeakHash(KeyHash):
    """Four bits of the first half: the seeds decide whether some keys collide."""

    seeds = 0

    def __init__(self, seed: bytes) -> None:
        super().__init__(seed)
        WeakHash.seeds += 1

    def halves(self, keys: pa.Array) -> tuple[Words, Words]:
        first, second = super().halves(keys)
        return first & np.uint64(15), second


@pytest.mark.parametrize("key_count", [4, 40])
def test_colliding_keys_cost_another_try_and_never_a_message(monkeypatch: pytest.MonkeyPatch, key_count: int) -> None:
    monkeypatch.setattr(survey, "KeyHash", WeakHash)
    rows = [(b"key %d" % (n % key_count), b"%d" % n) for n in range(80)]
    frame = keyed_frame(0, rows)
    source = MemorySource(0, [bytes(frame.header_bytes) + bytes(frame.body)])
    collided = 0
    for n in range(20):
        WeakHash.seeds = 0
        try:
            result = survey_again([source], Scope(), bytes([n]) * 32)
        except HashCollision:
            collided += 1
            continue
        assert WeakHash.seeds <= 4
        assert (result.totals.records_before, result.totals.records_after) == (80, key_count)
    assert collided == (20 if key_count > 16 else collided)
