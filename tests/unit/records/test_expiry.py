from hypothesis import given
from hypothesis import strategies as st

from quiver.records.build import build_frame
from quiver.records.expiry import may_be_past, past_rows
from quiver.records.header import stamp, unpack_header
from quiver.records.read import OpenFrame, open_frame

MOMENTS = st.integers(0, 20)


def frame(own: list[int | None], append_time_ms: int) -> OpenFrame:
    plain = build_frame([b"v"] * len(own), timestamp_ms=1, expires_at_ms=own)
    done = stamp(plain, unpack_header(plain), base_offset=7, leader_epoch=1, append_time_ms=append_time_ms)
    return open_frame(bytes(done.header_bytes) + bytes(done.body))


@given(st.lists(st.none() | MOMENTS, min_size=1, max_size=6), MOMENTS, MOMENTS, st.none() | MOMENTS)
def test_a_message_goes_by_its_own_time_or_else_by_its_topics(
    own: list[int | None], arrived_ms: int, now_ms: int, ttl_ms: int | None
) -> None:
    def is_past(own_ms: int | None) -> bool:
        end_ms = own_ms if own_ms is not None else None if ttl_ms is None else arrived_ms + ttl_ms
        return end_ms is not None and end_ms <= now_ms

    opened = frame(own, arrived_ms)
    expected = [is_past(each) for each in own]
    past = past_rows(opened, now_ms, ttl_ms)
    assert ([False] * len(own) if past is None else past.tolist()) == expected
    assert past is None or past.any()
    assert may_be_past(opened.header, now_ms, ttl_ms) or not any(expected)
