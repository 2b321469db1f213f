"""How `quiver top` draws a look, and which keys change it."""

import io
from typing import Any

from rich.console import Console

from quiver.cli.live.overview_feed import Look
from quiver.cli.live.overview_screen import OverviewScreen, sparkline
from quiver.protocol.group_messages import GroupSummary

NAMES = (
    "published_messages",
    "published_bytes",
    "read_messages",
    "read_bytes",
    "delivered",
    "acked",
    "nacked",
    "dead",
)


def overview(**changes: Any) -> dict[str, Any]:
    return {
        "version": "1.2",
        "node_id": "n",
        "time": "2026-01-31T12:00:00.000Z",
        "uptime_seconds": 61.4,
        "is_ready": True,
        "problems": [],
        "topics": 2,
        "groups": 1,
        "connections": 3,
        "rates": dict.fromkeys(NAMES, 1500.0),
        "publish_p99_ms": 2.5,
        "disk": {"free_bytes": 1024**3, "total_bytes": 2 * 1024**3, "log_bytes": 0},
        "lag_messages": 4,
        "dead_letters": 5,
        "loop_lag_ms": 1.0,
        "memory_bytes": 1024**2,
        "open_transactions": 0,
        "delayed": 0,
        "top_topics": [
            {"topic": "b", "published_per_second": 5.0, "read_per_second": 1.0, "size_bytes": 10},
            {"topic": "a", "published_per_second": 1.0, "read_per_second": 9.0, "size_bytes": 20},
        ],
    } | changes


def drawn(screen: OverviewScreen, look: Look) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(screen.render(look))
    return out.getvalue()


def test_everything_is_drawn() -> None:
    groups = [
        GroupSummary("idle", "stream", "empty", 0, 0, [], 0),
        GroupSummary("late", "queue", "x", 1, 0, [], 7, 2, 3),
    ]
    history = {"published_messages": [0.0, 8.0]}
    text = drawn(
        OverviewScreen(), Look(overview(problems=["orders-0: disk"], is_ready=False, history=history), groups)
    )
    assert "quiver 1.2  node n  up 1m1s" in text
    assert "NOT READY" in text
    assert "! orders-0: disk" in text
    assert "published 1,500/s  1.5 KiB/s" in text
    assert text.index("late") < text.index("idle"), "the most lag first"
    assert "\u2588" in text


def test_keys_sort_pause_and_end() -> None:
    screen, look = OverviewScreen(), Look(overview(), ())
    for keys, first in (("", "b"), ("r", "a"), ("p", "b"), ("s", "a"), ("n", "a")):
        screen.press(keys)
        rows = drawn(screen, look).partition("TOPIC")[2].splitlines()
        assert rows[1].startswith(first), keys
    screen.press(" ")
    assert screen.is_paused
    assert "PAUSED" in drawn(screen, look)
    screen.press(" x")
    assert (screen.is_paused, screen.is_ended) == (False, False)
    screen.press("q")
    assert screen.is_ended


def test_a_broker_that_is_gone_leaves_the_last_numbers() -> None:
    text = drawn(OverviewScreen(), Look(overview(), (), "no connection to x"))
    assert text.startswith("no connection to x; trying again")
    assert "1,500/s" in text
    assert "trying again" in drawn(OverviewScreen(), Look({}, (), "gone"))


def test_names_are_text_and_never_markup() -> None:
    rows = [{"topic": "[red]x[/]", "published_per_second": 1.0, "read_per_second": 0.0, "size_bytes": 0}]
    assert "[red]x[/]" in drawn(OverviewScreen(), Look(overview(top_topics=rows), ()))


def test_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "\u2581\u2581"
    assert sparkline([0, 4, 8]) == "\u2581\u2585\u2588"
    assert len(sparkline([1.0] * 500)) == 60
