"""Maps of digests against dictionaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.structures.digest_map import DigestMap, Digests, WantedDigests

HALVES = st.sampled_from([b"\0" * 8, b"\1" + b"\0" * 7, b"\xff" * 8, b"abcdefgh"])
"""So few that first halves are often the same."""
DIGESTS = st.one_of(st.binary(min_size=16, max_size=16), st.builds(lambda a, b: a + b, HALVES, HALVES))
PAIRS = st.lists(st.tuples(DIGESTS, st.integers(-(2**63), 2**63 - 1)), max_size=40)


def map_of(pairs: list[tuple[bytes, int]]) -> DigestMap:
    return DigestMap.of(Digests.of(digest for digest, _ in pairs), np.array([n for _, n in pairs], np.int64))


def found(made: DigestMap, wanted: list[bytes]) -> dict[bytes, int]:
    rows, numbers = made.find(WantedDigests(Digests.of(wanted)))
    assert len(set(rows)) == len(rows)
    return {wanted[row]: number for row, number in zip(rows, numbers, strict=True)}


@given(PAIRS, st.lists(DIGESTS, unique=True))
def test_finds_what_a_dictionary_finds(pairs: list[tuple[bytes, int]], others: list[bytes]) -> None:
    known = dict(pairs)
    made = map_of(pairs)
    wanted = list({*known, *others})
    assert found(made, wanted) == known
    assert len(made) == len(known)
    assert found(DigestMap(made.pack()), wanted) == known
    if known:
        assert made.highest() == max(known.values())


@given(PAIRS, PAIRS)
def test_of_two_maps_the_later_one_counts(first: list[tuple[bytes, int]], later: list[tuple[bytes, int]]) -> None:
    both = map_of(first).joined(map_of(later))
    known = {**dict(first), **dict(later)}
    assert found(both, list(known)) == known


def test_many_are_found_whatever_their_order() -> None:
    generator = np.random.default_rng(7)
    digests = [generator.bytes(16) for _ in range(3000)]
    made = map_of([(digest, number) for number, digest in enumerate(digests[:2000])])
    wanted = [digests[at] for at in generator.permutation(3000)]
    assert found(made, wanted) == {digest: number for number, digest in enumerate(digests[:2000])}


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(ValueError, match="24 bytes per entry"):
        DigestMap(bytes(25))
