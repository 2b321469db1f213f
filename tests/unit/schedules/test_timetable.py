"""When schedules fire: cron expressions, time zones, daylight saving, intervals."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.errors import InvalidRequest
from quiver.model.times import format_time, parse_time_ms
from quiver.schedules.timetable import Timetable, due_time, parse_timetable

BERLIN = "Europe/Berlin"
DAY_MS = 86_400_000


def times(expression: str, start: str, count: int, zone: str = "UTC") -> list[str]:
    """The next firings behind a time, to the second, in UTC."""
    timetable, at_ms = parse_timetable(expression, zone, 0), parse_time_ms(start)
    found = []
    for _ in range(count):
        following = timetable.next_after(at_ms)
        assert following is not None
        at_ms = following
        found.append(format_time(at_ms).removesuffix(":00.000Z").removesuffix(".000Z"))
    return found


class TestCron:
    def test_every_five_minutes(self) -> None:
        assert times("*/5 * * * *", "2026-01-01T00:03:20Z", 3) == [
            "2026-01-01T00:05",
            "2026-01-01T00:10",
            "2026-01-01T00:15",
        ]

    def test_the_time_itself_is_not_behind_it(self) -> None:
        assert times("0 9 * * *", "2026-01-01T09:00:00Z", 1) == ["2026-01-02T09:00"]
        assert times("0 9 * * *", "2026-01-01T08:59:59.999Z", 1) == ["2026-01-01T09:00"]

    def test_six_fields_begin_with_seconds(self) -> None:
        assert times("*/20 * * * * *", "2026-01-01T00:00:30Z", 3) == [
            "2026-01-01T00:00:40",
            "2026-01-01T00:01",
            "2026-01-01T00:01:20",
        ]

    def test_names_lists_ranges_and_last_days(self) -> None:
        assert times("30 9-10 * * MON,fri", "2026-01-01T00:00:00Z", 3) == [
            "2026-01-02T09:30",
            "2026-01-02T10:30",
            "2026-01-05T09:30",
        ]
        assert times("0 0 L * *", "2026-02-01T00:00:00Z", 2) == ["2026-02-28T00:00", "2026-03-31T00:00"]
        assert times("0 0 29 2 *", "2026-01-01T00:00:00Z", 2) == ["2028-02-29T00:00", "2032-02-29T00:00"]

    @pytest.mark.parametrize(
        ("nickname", "first"),
        [
            ("@hourly", "2026-01-01T13:00"),
            ("@daily", "2026-01-02T00:00"),
            ("@weekly", "2026-01-04T00:00"),
            ("@monthly", "2026-02-01T00:00"),
            ("@YEARLY", "2027-01-01T00:00"),
        ],
    )
    def test_nicknames(self, nickname: str, first: str) -> None:
        assert times(nickname, "2026-01-01T12:30:00Z", 1) == [first]

    @pytest.mark.parametrize(
        "expression",
        [
            "",
            " ",
            "* * * *",
            "* * * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "0 0 30 2 *",
            "a * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "@reboot",
            "@every",
            "@every soon",
            "@every 10ms",
            "@every 11000d",
            "1," * 300 + "1 * * * *",
        ],
    )
    def test_nonsense_is_refused(self, expression: str) -> None:
        with pytest.raises(InvalidRequest):
            parse_timetable(expression, "UTC", 0)

    @pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/localtime", "Europe", "\0"])
    def test_time_zones_that_are_none(self, zone: str) -> None:
        with pytest.raises(InvalidRequest, match="time zone"):
            parse_timetable("* * * * *", zone, 0)

    def test_an_expression_that_never_fires(self) -> None:
        timetable = parse_timetable("0 0 */31 * 1#2", "UTC", 0)
        assert timetable.next_after(0) is None
        assert timetable.latest(10**12) is None

    @given(st.text(alphabet="0123456789*/,-L#W ?@MON", max_size=30))
    def test_any_text_is_a_timetable_or_an_invalid_request(self, text: str) -> None:
        try:
            timetable = parse_timetable(text, BERLIN, 0)
        except InvalidRequest:
            return
        following = timetable.next_after(1_700_000_000_000)
        assert following is None or following > 1_700_000_000_000


class TestDaylightSaving:
    def test_a_time_of_day_stays_the_same_on_the_wall(self) -> None:
        assert times("0 9 * * *", "2026-03-28T00:00:00Z", 3, BERLIN) == [
            "2026-03-28T08:00",
            "2026-03-29T07:00",
            "2026-03-30T07:00",
        ]

    def test_a_time_that_is_skipped_fires_behind_the_gap(self) -> None:
        assert times("30 2 * * *", "2026-03-28T02:00:00Z", 2, BERLIN) == ["2026-03-29T01:00", "2026-03-30T00:30"]

    def test_a_time_that_comes_twice_fires_once(self) -> None:
        assert times("30 2 * * *", "2026-10-24T12:00:00Z", 2, BERLIN) == ["2026-10-25T00:30", "2026-10-26T01:30"]
        assert times("45 2 * * *", "2026-10-25T01:30:00Z", 1, BERLIN) == ["2026-10-26T01:45"]

    def test_short_intervals_go_by_real_time(self) -> None:
        assert times("*/30 * * * *", "2026-10-25T00:00:00Z", 4, BERLIN) == [
            "2026-10-25T00:30",
            "2026-10-25T01:00",
            "2026-10-25T01:30",
            "2026-10-25T02:00",
        ]

    def test_two_times_in_the_gap_fire_once(self) -> None:
        assert times("0,30 2 * * *", "2026-03-28T12:00:00Z", 2, BERLIN) == ["2026-03-29T01:00", "2026-03-30T00:00"]

    @pytest.mark.parametrize(
        ("expression", "start", "firings"),
        [
            # 02:00+11:00 on 4 April 2027 is 01:30+10:30 again
            ("0 */2 * * *", "2027-04-03T13:00:00Z", ["2027-04-03T15:30", "2027-04-03T17:30"]),
            ("*/20 1 * * *", "2027-04-03T14:30:00Z", ["2027-04-03T14:40", "2027-04-03T15:10", "2027-04-04T14:30"]),
            ("45 * * * *", "2027-04-03T14:00:00Z", ["2027-04-03T14:45", "2027-04-03T15:15", "2027-04-03T16:15"]),
            ("45 1 * * *", "2027-04-03T14:00:00Z", ["2027-04-03T14:45", "2027-04-04T15:15"]),
            # 02:00+10:30 on 3 October 2027 is 02:30+11:00
            ("*/15 2 * * *", "2027-10-02T15:00:00Z", ["2027-10-02T15:30", "2027-10-02T15:45", "2027-10-03T15:00"]),
            ("15 2 * * *", "2027-10-02T15:00:00Z", ["2027-10-02T15:30", "2027-10-03T15:15"]),
        ],
    )
    def test_clocks_that_are_moved_by_half_an_hour(self, expression: str, start: str, firings: list[str]) -> None:
        assert times(expression, start, len(firings), "Australia/Lord_Howe") == firings

    @pytest.mark.parametrize("zone", [BERLIN, "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca"])
    @pytest.mark.parametrize("expression", ["*/7 * * * *", "0 */2 * * *", "* 2 * * *", "0 30 1,2 * * *"])
    def test_real_time_is_every_moment_at_which_the_wall_clock_fits(self, expression: str, zone: str) -> None:
        timetable = parse_timetable(expression, zone, 0)
        for change_ms in _changes_of_clocks(zone, 2026):
            at_ms, end_ms, firings = change_ms - DAY_MS // 4, change_ms + DAY_MS // 4, []
            wanted = [each for each in range(at_ms + 60_000, end_ms, 60_000) if _fits(expression, zone, each)]
            while (following := timetable.next_after(at_ms)) is not None and following < end_ms:
                at_ms = following
                firings.append(at_ms)
            assert firings == wanted
            latest = [timetable.latest(each) for each in wanted]
            assert latest == wanted
            assert [timetable.latest(each - 1) for each in wanted[1:]] == wanted[:-1]


class TestInterval:
    def test_it_is_counted_from_its_anchor(self) -> None:
        timetable = parse_timetable("@every 1m30s", "UTC", 1_000)
        assert timetable.next_after(1_000) == 91_000
        assert timetable.next_after(91_000) == 181_000
        assert timetable.next_after(1_000_000) == 1_000 + 12 * 90_000
        assert timetable.latest(91_000) == 91_000
        assert timetable.latest(180_999) == 91_000
        assert due_time(timetable, 91_000, 91_005) == 91_000

    def test_an_anchor_in_the_future_holds_up_nothing(self) -> None:
        """The clock was ahead when the schedule was added."""
        timetable = parse_timetable("@every 1s", "UTC", 60_000)
        assert timetable.next_after(12_300) == 13_000
        assert due_time(timetable, 13_000, 15_700) == 15_000


EXPRESSIONS = [
    "*/5 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "15,45 1-3 * * *",
    "0 3 * * 0",
    "20 */10 * * * *",
    "@every 7m",
]


class TestMissed:
    def test_the_latest_one_makes_up_for_all(self) -> None:
        timetable = parse_timetable("0 * * * *", "UTC", 0)
        assert due_time(timetable, parse_time_ms("2026-01-01T01:00:00Z"), parse_time_ms("2026-01-01T09:30:00Z")) == (
            parse_time_ms("2026-01-01T09:00:00Z")
        )

    def test_a_year_of_seconds_is_found_at_once(self) -> None:
        timetable = parse_timetable("* * * * * *", "UTC", 0)
        first = parse_time_ms("2026-01-01T00:00:00Z")
        assert due_time(timetable, first, first + 365 * DAY_MS + 700) == first + 365 * DAY_MS

    @given(
        expression=st.sampled_from(EXPRESSIONS),
        zone=st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"]),
        start=st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)),
        hours=st.floats(0, 30),
    )
    def test_it_is_one_of_the_firings_and_nothing_comes_between(
        self, expression: str, zone: str, start: datetime, hours: float
    ) -> None:
        timetable = parse_timetable(expression, zone, 0)
        start_ms = int(start.replace(tzinfo=UTC).timestamp()) * 1000
        first = timetable.next_after(start_ms)
        assert first is not None
        now_ms = first + int(hours * 3_600_000)
        firings = list(self._between(timetable, first, now_ms))
        at_ms = due_time(timetable, first, now_ms)
        assert at_ms in firings
        following = timetable.next_after(now_ms)
        assert following is not None
        assert following > now_ms
        if zone == "UTC" or not _changes_clocks(zone, now_ms) or _goes_by_real_time(expression):
            assert at_ms == firings[-1]

    @staticmethod
    def _between(timetable: Timetable, first_ms: int, now_ms: int) -> list[int]:
        found, at_ms = [], first_ms
        while at_ms <= now_ms:
            found.append(at_ms)
            following = timetable.next_after(at_ms)
            assert following is not None
            assert following > at_ms
            at_ms = following
        return found


def _goes_by_real_time(expression: str) -> bool:
    fields = expression.split()
    return len(fields) == 6 or fields[0].startswith("*") or fields[1].startswith("*")


def _changes_of_clocks(zone: str, year: int) -> list[int]:
    """The times in a year at which the clocks of a zone are moved, to the minute."""
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1000
    offsets = [(each, _wall(zone, each).utcoffset()) for each in range(start, start + 366 * DAY_MS, 1_800_000)]
    return [each for (_, before), (each, after) in pairwise(offsets) if before != after]


def _wall(zone: str, time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, ZoneInfo(zone))


def _fits(expression: str, zone: str, time_ms: int) -> bool:
    """Whether an expression of lists and steps for minutes and hours fits what the wall clock shows."""
    wall = _wall(zone, time_ms)
    minute, hour = expression.split()[-5:-3]
    return all(
        field == "*" or (number % int(field[2:]) == 0 if field.startswith("*/") else str(number) in field.split(","))
        for field, number in ((minute, wall.minute), (hour, wall.hour))
    )


def _changes_clocks(zone: str, now_ms: int) -> bool:
    """Whether the clocks of a zone were moved in the three days before a time."""
    moment = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone))
    return any(
        (moment - timedelta(hours=n)).astimezone(UTC).astimezone(ZoneInfo(zone)).utcoffset() != moment.utcoffset()
        for n in range(0, 72, 6)
    )
