"""Tables and charts of text."""

from quiver_spark.jobs.terminal import BAR_WIDTH, bar_lines, table_lines


def test_a_table_has_numbers_to_the_right() -> None:
    lines = table_lines(("name", "count"), [("a", 1_000), ("long name", None)])
    assert lines == ["name       count", "a          1,000", "long name      -", ""]
    assert table_lines(("name",), []) == []


def test_bars_are_in_proportion_and_something_is_seen_of_the_smallest() -> None:
    title, whole, half, little, none, empty = bar_lines(
        "title", [("a", 100.0, "x"), ("b", 50.0, "y"), ("c", 0.001, "z"), ("d", 0.0, "-")]
    )
    assert (title, empty) == ("title", "")
    assert (whole.count("█"), half.count("█")) == (BAR_WIDTH, BAR_WIDTH // 2)
    assert "▏" in little
    assert none.split() == ["d", "-"]
    assert bar_lines("title", []) == []
    assert bar_lines("shares", [("a", 0.5, "")], 1.0)[1].count("█") == BAR_WIDTH // 2
