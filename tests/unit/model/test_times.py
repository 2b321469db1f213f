import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidRequest
from quiver.model.position import Position, parse_position
from quiver.model.times import format_duration, format_time, parse_duration_ms, parse_time_ms, wait_seconds


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
        (timedelta(hours=1, milliseconds=5), 3_600_005),
        (timedelta(), 0),
    ],
)
def test_durations_as_users_write_them(text: object, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "bad", ["", "5x", "-1s", -1, "1h 30m", None, True, float("nan"), "inf", [], "9" * 40, timedelta(seconds=-1)]
)
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


def test_a_text_without_a_zone_is_utc_and_offsets_are_applied() -> None:
    assert format_time(parse_time_ms("2026-01-31T12:00:00")) == "2026-01-31T12:00:00.000Z"
    assert format_time(parse_time_ms("2026-01-31T12:00:00+02:00")) == "2026-01-31T10:00:00.000Z"


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("new_york")
def test_a_datetime_without_a_zone_is_local_time() -> None:
    assert format_time(parse_time_ms(datetime(2026, 1, 31, 12, 0))) == "2026-01-31T17:00:00.000Z"
    assert format_time(parse_time_ms(datetime(2026, 7, 31, 12, 0))) == "2026-07-31T16:00:00.000Z"
    assert parse_position(datetime(2026, 1, 31, 12, 0), 0) == parse_position("2026-01-31T17:00:00Z", 0)


@pytest.mark.usefixtures("new_york")
def test_the_hour_that_comes_twice_is_told_apart() -> None:
    first = datetime(2026, 11, 1, 1, 30)
    assert format_time(parse_time_ms(first)) == "2026-11-01T05:30:00.000Z"
    assert format_time(parse_time_ms(first.replace(fold=1))) == "2026-11-01T06:30:00.000Z"


@pytest.mark.usefixtures("new_york")
def test_a_datetime_with_a_zone_keeps_it() -> None:
    assert format_time(parse_time_ms(datetime(2026, 1, 31, 12, 0, tzinfo=UTC))) == "2026-01-31T12:00:00.000Z"
    east = timezone(timedelta(hours=2))
    assert format_time(parse_time_ms(datetime(2026, 1, 31, 12, 0, tzinfo=east))) == "2026-01-31T10:00:00.000Z"


@pytest.mark.parametrize("bad", [datetime.min, datetime.max, datetime(1969, 1, 1, tzinfo=UTC)])
@pytest.mark.usefixtures("new_york")
def test_a_datetime_outside_of_the_range_is_refused(bad: datetime) -> None:
    with pytest.raises(InvalidRequest, match="time"):
        parse_time_ms(bad)


def test_a_negative_timedelta_is_a_time_ago() -> None:
    assert parse_position(timedelta(hours=-2), 10_000_000) == Position("time", 2_800_000)
    with pytest.raises(InvalidRequest):
        parse_position(timedelta(hours=2), 10_000_000)


def test_how_long_a_call_waits() -> None:
    assert [wait_seconds(given) for given in (None, 3, 0.25, "1m", timedelta(milliseconds=1500))] == [
        None, 3, 0.25, 60, 1.5
    ]  # fmt: skip
    assert wait_seconds(-0.5) == 0
