"""Bodies differ from each other, are random or JSON, and are the same in every run."""

import itertools
import json
import zlib
from itertools import islice

import pytest
from benchmarks.json_orders import POOL_ORDERS
from benchmarks.payload import POOL_BYTES, Payload, age_seconds, bodies, cut, stamped


@pytest.mark.parametrize("size", [16, 100, 1_000])
def test_bodies_differ_and_do_not_compress(size: int) -> None:
    found = bodies(size, 1_000)
    assert len(found) == len(set(found)) == 1_000
    assert {len(body) for body in found} == {size}
    joined = b"".join(found)
    assert len(zlib.compress(joined)) >= len(joined)
    assert bodies(size, 1_000) == found, "in every process"


def test_a_pool_that_is_used_up_begins_again() -> None:
    large = bodies(4 << 20, 20)
    assert len(large) == 20
    assert large[16:] == large[:4], "64 MiB are enough"
    assert sum(map(len, set(large))) == POOL_BYTES
    assert list(islice(Payload(100).endless(10), 11))[10] == bodies(100, 10)[0]


def test_json_differs_compresses_and_has_the_size() -> None:
    found = Payload(1024, "JSON").bodies(1_000)
    assert len(set(found)) == 1_000
    assert {len(body) for body in found} == {1024}
    assert all(len(json.loads(body)["items"]) > 3 for body in found)
    joined = b"".join(found)
    assert 0.2 < len(zlib.compress(joined, 1)) / len(joined) < 0.6, "neither noise nor one text again and again"
    assert Payload(1024, "JSON").different(1_000) == found, "in every process"
    assert len(Payload(400, "JSON").different(10 * POOL_ORDERS)) == POOL_ORDERS
    with pytest.raises(ValueError, match="at least 400"):
        Payload(100, "JSON").bodies(1)


@pytest.mark.parametrize("count", [1, 9, 10, 11, 35])
def test_chunks_have_as_many_bodies_as_wanted(count: int) -> None:
    chunks = list(Payload(100).chunks(count, 10))
    assert [len(chunk) for chunk in chunks[:-1]] == [10] * (len(chunks) - 1)
    joined = [body for chunk in chunks for body in chunk]
    assert joined == Payload(100).bodies(count)


def test_chunks_begin_again_when_the_pool_is_used_up() -> None:
    lists = itertools.cycle([[b"a", b"b"], [b"c", b"d"]])
    assert list(cut(lists, 7)) == [[b"a", b"b"], [b"c", b"d"], [b"a", b"b"], [b"c"]]


@pytest.mark.parametrize(
    ("payload", "detail"),
    [(Payload(100), ""), (Payload(1024, "JSON"), "JSON"), (Payload(1024, "JSON", "lz4"), "JSON, lz4")],
)
def test_a_payload_names_what_is_special(payload: Payload, detail: str) -> None:
    assert payload.detail == detail


def test_a_stamp_takes_the_room_of_the_first_bytes() -> None:
    [body] = bodies(100, 1)
    assert stamped(body)[8:] == body[8:]
    assert 0 <= age_seconds(stamped(body)) < 60
