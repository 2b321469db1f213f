"""Bodies differ from each other, do not compress, and are the same in every run."""

import zlib
from itertools import islice

import pytest
from benchmarks.payload import POOL_BYTES, age_seconds, bodies, endless_bodies, stamped


@pytest.mark.parametrize("size", [16, 100, 1_000])
def test_bodies_differ_and_do_not_compress(size: int) -> None:
    found = bodies(size, 1_000)
    assert len(found) == len(set(found)) == 1_000
    assert {len(body) for body in found} == {size}
    joined = b"".join(found)
    assert len(zlib.compress(joined)) >= len(joined)
    assert bodies(size, 1_000) == found, "in every process"


def test_a_pool_that_is_used_up_begins_again() -> None:
    large = bodies(1 << 20, 20)
    assert len(large) == 20
    assert large[16:] == large[:4], "16 MiB are enough"
    assert sum(map(len, set(large))) == POOL_BYTES
    assert list(islice(endless_bodies(100), 10_001))[10_000] == bodies(100)[0]


def test_a_stamp_takes_the_room_of_the_first_bytes() -> None:
    [body] = bodies(100, 1)
    assert stamped(body)[8:] == body[8:]
    assert 0 <= age_seconds(stamped(body)) < 60
