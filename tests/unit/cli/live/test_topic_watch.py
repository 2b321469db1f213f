"""The lines of `quiver topic watch`."""

from quiver.cli.live.topic_watch import GroupLook, TopicLook, difference, head_line, text_line


def look(at: float, end: int, **changes: object) -> TopicLook:
    return TopicLook(at, 1_800_000_000_000, end, end, 100 * end, {})._replace(**changes)  # type: ignore[arg-type]


def test_rates_are_of_the_time_that_passed() -> None:
    before = look(10.0, 100, groups={"a": GroupLook(1, 50, 2000, 50)})
    after = look(12.0, 1100, groups={"a": GroupLook(2, 1000, 65_000, 100), "new": GroupLook(0, 3, 0, 9)})
    line = difference(before, after)
    assert (line["published"], line["published_per_second"], line["bytes_per_second"]) == (1000, 500, 50_000)
    assert line["groups"] == [
        {"group": "a", "members": 2, "done_per_second": 25, "lag": 1000, "lag_seconds": 65},
        {"group": "new", "members": 0, "done_per_second": 0, "lag": 3, "lag_seconds": 0},
    ]
    text = text_line(line)
    assert text.split()[:3] == ["08:00:00", "500", "48.8"]
    assert text.endswith("a 25/s lag 1,000 (1m5s), new 0/s lag 3")
    assert head_line().index("GROUPS") == text.index("a 25/s")


def test_nothing_falls_below_zero() -> None:
    """Retention removed messages, the topic was created again, the group was reset."""
    before = look(10.0, 100, groups={"a": GroupLook(0, 0, 0, 100)})
    after = look(10.0, 5, groups={"a": GroupLook(0, 5, 0, 0)})
    line = difference(before, after)
    assert (line["published_per_second"], line["bytes_per_second"]) == (0, 0)
    assert line["groups"][0]["done_per_second"] == 0
    assert text_line(difference(look(1, 0), look(2, 0))).endswith("  -")
