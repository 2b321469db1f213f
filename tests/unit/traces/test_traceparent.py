"""The header `traceparent`, and frames that say whether a message of theirs is sampled."""

import pyarrow as pa
import pytest

from quiver.model.limits import Limits
from quiver.model.trace.traceparent import parse_traceparent
from quiver.records.build import build_frame, build_frame_from_arrow
from quiver.records.check import check_frame
from quiver.records.header import SAMPLED, unpack_header

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED_ONE = f"00-{TRACE}-{SPAN}-01".encode()
OTHER_ONE = f"00-{TRACE}-{SPAN}-00".encode()


def test_it_is_read_and_written() -> None:
    found = parse_traceparent(SAMPLED_ONE)
    assert found is not None
    assert (found.trace_id, found.span_id, found.is_sampled, found.text) == (TRACE, SPAN, True, SAMPLED_ONE.decode())
    assert parse_traceparent(OTHER_ONE) is not None
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-03".encode()).is_sampled  # type: ignore[union-attr]
    assert parse_traceparent(f"cc-{TRACE}-{SPAN}-01-later-version".encode()) is not None


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"00-1-2-01",
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"ff-{TRACE}-{SPAN}-01".encode(),
        f"00-{TRACE}-{SPAN}-01-more".encode(),
        f"00-{TRACE}-{SPAN}-1".encode(),
        b"\xff" * 55,
        b"00-" * 10_000,
    ],
)
def test_what_is_none_means_nothing(text: bytes | None) -> None:
    assert parse_traceparent(text) is None


@pytest.mark.parametrize(
    ("headers", "is_sampled"),
    [
        ([None, None], False),
        ([None, {"traceparent": SAMPLED_ONE}], True),
        ([{"traceparent": OTHER_ONE}, {"other": SAMPLED_ONE}], False),
        ([{"traceparent": OTHER_ONE}, {"a": b"b", "traceparent": SAMPLED_ONE}], True),
        ([{"traceparent": b"nonsense"}, None], False),
    ],
)
def test_frames_say_whether_a_message_is_sampled(headers: list[dict[str, bytes] | None], is_sampled: bool) -> None:
    frame = build_frame([b"a", b"b"], timestamp_ms=5, headers=headers)
    assert bool(unpack_header(frame).attributes & SAMPLED) == is_sampled
    assert check_frame(frame, Limits()).record_count == 2
    table = pa.table({"value": ["a", "b"], "headers": pa.array(headers, pa.map_(pa.string(), pa.binary()))})
    for part in (table, table.slice(0), table.slice(1)):
        sampled_here = is_sampled and part.num_rows > 0
        frame = build_frame_from_arrow(part, timestamp_ms=5)
        assert bool(unpack_header(frame).attributes & SAMPLED) == sampled_here
