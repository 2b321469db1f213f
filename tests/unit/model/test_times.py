import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidRequest
from quiver.model.times import format_duration, format_time, parse_duration_ms, parse_time_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("24h", 86_400_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("0.5s", 500),
        (" 2S ", 2000),
        (1.5, 1500),
        (0, 0),
        ("15", 15_000),
    ],
)
def test_durations_as_users_write_them(text: object, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("bad", ["", "5x", "-1s", -1, "1h 30m", None, True, float("nan"), "inf", [], "9" * 40])
def test_what_is_not_a_duration_is_refused(bad: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_duration_ms(bad)


@given(st.integers(min_value=0, max_value=10**14))
def test_a_formatted_duration_reads_back(ms: int) -> None:
    assert parse_duration_ms(format_duration(ms)) == ms


@given(st.integers(min_value=0, max_value=253_402_300_799_999))
def test_a_formatted_time_reads_back(ms: int) -> None:
    assert parse_time_ms(format_time(ms)) == ms


@pytest.mark.parametrize("bad", ["", "yesterday", -5, None, True, {}, "2026-13-01T00:00:00Z", 10**18])
def test_what_is_not_a_time_is_refused(bad: object) -> None:
    with pytest.raises(InvalidRequest):
        parse_time_ms(bad)


def test_a_time_without_a_zone_is_utc_and_offsets_are_applied() -> None:
    assert format_time(parse_time_ms("2026-01-31T12:00:00")) == "2026-01-31T12:00:00.000Z"
    assert format_time(parse_time_ms("2026-01-31T12:00:00+02:00")) == "2026-01-31T10:00:00.000Z"
