"""Which messages of a frame begin a trace, and how they get their header."""

import pyarrow as pa
import pytest

from quiver.client.produce.frame_sampler import FrameSampler, with_parent
from quiver.client.produce.rows import Rows
from quiver.model.trace.traceparent import TraceParent, parse_traceparent
from quiver.records.header import SAMPLED, unpack_header
from quiver.records.read import open_frame
from quiver.system.randomness import SeededRandomness, seeded

LIMIT = 1 << 20
OWN = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def new_sampler(share: float) -> FrameSampler:
    return FrameSampler(share, SeededRandomness(seeded("sampler")))


def headers_of(rows: Rows, **options: str) -> list[dict[str, bytes]]:
    """As they are in the frame, whose bit says whether there are some."""
    frame = rows.seal(**options)
    found = open_frame(frame, verify=False).headers()
    sampled = [parse_traceparent(each.get("traceparent")) for each in found]
    is_sampled = any(parent is not None and parent.is_sampled for parent in sampled)
    assert bool(unpack_header(frame).attributes & SAMPLED) == is_sampled
    return found


def plain_rows(count: int, size: int = 10) -> Rows:
    return Rows.from_lists([b"x" * size] * count, timestamp_ms=1)


@pytest.mark.parametrize("size", [10, 100, 600])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_share_of_all_messages_each_with_a_trace_of_its_own(size: int, compression: str) -> None:
    sampler, parents = new_sampler(0.05), list[bytes]()
    for count in (1, 7, 1_000, 3_000, 1, 20_000, 996):
        rows = sampler.added_to(plain_rows(count, size), max_message_bytes=LIMIT)
        found = headers_of(rows, compression=compression)
        assert len(found) == count
        parents += [headers["traceparent"] for headers in found if headers]
    assert 1_100 < len(parents) < 1_400
    parsed = [parse_traceparent(parent) for parent in parents]
    assert all(parent is not None and parent.is_sampled for parent in parsed)
    assert len({parent.trace_id for parent in parsed if parent is not None}) == len(parents)


@pytest.mark.parametrize("count", [1, 1_023, 1_024, 5_000])
def test_all_messages(count: int) -> None:
    sampler = new_sampler(1)
    assert not sampler.pass_one()
    assert all(headers_of(sampler.added_to(plain_rows(count), max_message_bytes=LIMIT)))
    assert all(headers_of(sampler.added_to(plain_rows(count), max_message_bytes=LIMIT)))


def test_a_frame_without_a_trace_stays_as_it_is() -> None:
    sampler, rows = new_sampler(1e-12), plain_rows(1_000)
    assert sampler.added_to(rows, max_message_bytes=LIMIT) is rows
    assert sampler.pass_one()


def test_every_message_counts_however_it_is_sent() -> None:
    """The same messages begin traces, one by one and in frames."""
    single, many = new_sampler(0.1), new_sampler(0.1)
    places = []
    for number in range(2_500):
        if not single.pass_one():
            places.append(number)
            assert single.added_to(plain_rows(1), max_message_bytes=LIMIT).arrays.keys() > {0}
    found = headers_of(many.added_to(plain_rows(2_500), max_message_bytes=LIMIT))
    assert [number for number, headers in enumerate(found) if headers] == places


def test_own_headers_stay() -> None:
    own = [{"a": b"1"}, None, {"traceparent": OWN, "b": b"2"}, {"c": b"3", "d": b""}] * 300
    rows = Rows.from_lists([b"x"] * len(own), timestamp_ms=1, headers=own)
    for part in (rows, rows.slice(7, 600)):
        before = headers_of(part)
        found = headers_of(new_sampler(0.5).added_to(part, max_message_bytes=LIMIT))
        assert [{**new, "traceparent": old.get("traceparent")} for new, old in zip(found, before, strict=True)] == [
            {**old, "traceparent": old.get("traceparent")} for old in before
        ]
        begun = [new for new, old in zip(found, before, strict=True) if len(new) > len(old)]
        assert len(before) // 4 < len(begun) < len(before) // 2
        assert all(list(new)[-1] == "traceparent" for new in begun)


def test_the_trace_of_the_sender_for_rows_without_one() -> None:
    parent = TraceParent("1" * 32, "2" * 16, True)
    assert headers_of(with_parent(plain_rows(3), parent)) == [{"traceparent": parent.text.encode()}] * 3
    columns = pa.array([[("a", b"b")], None, [("traceparent", OWN)]], pa.map_(pa.string(), pa.binary()))
    rows = Rows.from_arrow(pa.record_batch({"value": [b"x"] * 3, "headers": columns}), 1)
    given = parent.text.encode()
    expected = [{"a": b"b", "traceparent": given}, {"traceparent": given}, {"traceparent": OWN}]
    assert headers_of(with_parent(rows, parent)) == expected


def test_a_message_is_never_too_large_because_of_its_trace() -> None:
    sizes = [1_000, 934, 935, 10]
    rows = Rows.from_lists([b"x" * size for size in sizes], timestamp_ms=1)
    found = headers_of(new_sampler(1).added_to(rows, max_message_bytes=1_000))
    assert [bool(headers) for headers in found] == [False, True, False, True]
    large = plain_rows(1_000_000, 8)
    frame = new_sampler(1).added_to(large, max_message_bytes=LIMIT).seal()
    assert len(frame) < 14 * LIMIT


def test_a_forked_child_has_traces_of_its_own() -> None:
    sampler = FrameSampler(1, SeededRandomness(seeded("fork")))
    twin = FrameSampler(1, SeededRandomness(seeded("fork")))
    twin.after_fork(0)
    ids = [headers_of(each.added_to(plain_rows(1), max_message_bytes=LIMIT)) for each in (sampler, twin)]
    assert ids[0] != ids[1]
