"""Checks of what operators do: schedules, redrives, resets and compactions. Each finds a fault that is planted."""

from types import SimpleNamespace
from typing import Any

import pytest

from quiver.system.randomness import seeded
from quiver.testing.simulation.history import Event, History, sure_spans
from quiver.testing.simulation.system.clock import EPOCH_MS, SimulatedClock
from quiver.testing.simulation.workloads.group import GroupWorkload
from quiver.testing.simulation.workloads.redrive import RedriveWorkload
from quiver.testing.simulation.workloads.schedules import ScheduleWorkload
from quiver.testing.simulation.workloads.table import TableWorkload
from unit.testing.planted_history import done, found


def asked(history: History, what: str, began: float, ended: float, outcome: Any = "ok", **details: Any) -> Event:
    event = done(history, what, **details)
    event.began, event.ended, event.outcome = began, ended, outcome
    return event


def test_when_a_state_is_sure(history: History) -> None:
    asked(history, "pause", 1, 2)
    assert list(sure_spans(history.events, "pause", "resume")) == [(2, float("inf"))]
    asked(history, "resume", 0.5, 0.8)
    assert list(sure_spans(history.events, "pause", "resume")) == [(2, float("inf"))], "that was before"
    asked(history, "resume", 5, 6)
    assert list(sure_spans(history.events, "pause", "resume")) == [(2, 5)]
    asked(history, "resume", 0.6, 0.7, "unknown")
    assert list(sure_spans(history.events, "pause", "resume")) == [(2, 0.6)], "it may have come later"


def test_when_a_clock_showed_a_time(history: History) -> None:
    clock = SimulatedClock(history._world)
    history._world.now = 10.0
    clock.step(5_000)
    history._world.now = 20.0
    clock.step(0)
    assert clock.read_at(EPOCH_MS + 9_000) == [9.0]
    assert clock.read_at(EPOCH_MS + 12_000) == []
    assert clock.read_at(EPOCH_MS + 22_000) == [17.0, 22.0]


@pytest.fixture
def schedules(history: History) -> ScheduleWorkload:
    """One that was added, has fired once, and is there."""
    found = ScheduleWorkload(history, seeded("1"), "fsync", SimulatedClock(history._world))
    asked(history, "add", 1, 2, schedule="s")
    asked(history, "left", 60, 60, schedule="s", fired=0)
    found._left["s"] = SimpleNamespace(fired_count=1)  # type: ignore[assignment]
    found._fired["s"] = [(EPOCH_MS + 4_000, EPOCH_MS + 4_001, False)]
    return found


def test_schedules(history: History, schedules: ScheduleWorkload) -> None:
    assert not found(schedules)
    asked(history, "pause", 2.5, 3, schedule="s")
    assert "fired at 4.001, while it was paused" in found(schedules)
    asked(history, "resume", 3.5, 3.6, schedule="s")
    assert not found(schedules)
    schedules._left["s"] = SimpleNamespace(fired_count=2)  # type: ignore[assignment]
    assert "has fired 2 times, and 1 are stored" in found(schedules)
    schedules._fired["s"].append((EPOCH_MS + 7_000, EPOCH_MS + 6_000, False))
    assert "1000 ms early" in found(schedules)


def test_schedules_that_end(history: History, schedules: ScheduleWorkload) -> None:
    remove = asked(history, "remove", 10, 11, schedule="s")
    assert "was removed and is there" in found(schedules)
    del schedules._left["s"]
    assert not found(schedules)
    history.events.remove(remove)
    assert "was added and is lost" in found(schedules)


def test_schedules_fire_once_per_time_and_run(history: History, schedules: ScheduleWorkload) -> None:
    schedules._left.clear()
    asked(history, "remove", 10, 11, schedule="s")
    schedules._fired["s"] *= 2
    assert "has fired 2 times for" in found(schedules)
    asked(history, "resume", 3.0, 3.1, schedule="s")
    assert not found(schedules), "its clock may have gone back before"
    asked(history, "run", 5, 6, schedule="s")
    assert "was run 1 to 1 times, and has sent 0 messages" in found(schedules)
    schedules._fired["s"].append((EPOCH_MS + 5_000, EPOCH_MS + 5_000, True))
    assert not found(schedules)


def test_redrive(history: History) -> None:
    redrive = RedriveWorkload(history, seeded("1"), "fsync")
    asked(history, "publish", 1, 2, value="a")
    assert "a was acked and is not stored" in found(redrive)
    redrive._copies["a"] = [(0, 0)]
    assert "a is lost: it died 1 times, and was sent back or purged 0 times" in found(redrive)
    redrive._copies["a"] = [(0, 0), (0, 7)]
    ack = asked(history, "ack", 8, 9, value="a", place=(0, 7))
    assert not found(redrive)
    redrive._copies["a"].append((0, 8))
    asked(history, "ack", 10, 11, value="a", place=(0, 8))
    assert "a died 1 times at most, and was sent back or purged 2 times" in found(redrive)
    ack.outcome = "unknown"
    assert not found(redrive), "it may have been a dead letter instead"


def test_purge(history: History) -> None:
    redrive = RedriveWorkload(history, seeded("1"), "fsync")
    redrive._copies["a"] = [(0, 0)]
    purge = asked(history, "purge", 5, 6, value="a", id="0:0")
    purge.result = SimpleNamespace(dead_letter_count=1)
    assert not found(redrive)
    again = asked(history, "these", 7, 8, value="a", id="0:0")
    again.result = SimpleNamespace(dead_letter_count=1)
    assert "dead letter 0:0 of a was redriven or purged 2 times" in found(redrive)


def test_table(history: History) -> None:
    table = TableWorkload(history, seeded("1"), "fsync")
    for offset, value in enumerate(("a", "b")):
        write = asked(history, "publish", offset, offset + 0.5, key="k", value=value)
        write.result = SimpleNamespace(partition=0, offset=offset)
    assert "k is lost" in found(table)
    table._rows = [(0, 1, "k", "b")]
    table._seen = {"reader": [(0, 0, "k", "a"), (0, 1, "k", "b")]}
    assert not found(table)
    table._seen = {"reader": [(0, 0, "k", "a"), (0, 5, "other", "c")]}
    assert "reader has passed (0, 1, 'k', 'b'), and never got it" in found(table)
    table._seen = {"reader": [(0, 1, "k", "b"), (0, 0, "k", "a")]}
    assert "got offset 0 after offset 1" in found(table)
    table._rows, table._seen = [(0, 0, "k", "a")], {}
    assert "k is a, which is not what was written last" in found(table)
    table._rows.append((0, 1, "k", "b"))
    assert "k is there 2 times" in found(table)


def test_deleted_keys(history: History) -> None:
    table = TableWorkload(history, seeded("1"), "fsync")
    asked(history, "publish", 1, 2, key="k", value="a")
    asked(history, "publish", 3, 4, "unknown", key="k", value="")
    assert not found(table), "the tombstone may be stored, and gone"
    history.events.pop()
    assert "k is lost" in found(table)


def test_resets(history: History) -> None:
    group = GroupWorkload(history, seeded("1"), "fsync")
    group._auto_commit, group._has_resets = False, True
    group._stored = {"a": ("events-0", 0), "b": ("events-0", 1)}
    asked(history, "assign", 1, 1, partition="events-0", member="m", generation=1)
    for value, offset in (("a", 0), ("b", 1)):
        asked(history, "read", 2, 2, value=value, partition="events-0", offset=offset, member="m")
    asked(history, "commit", 3, 4, partition="events-0", offset=1, member="m")
    asked(history, "assign", 8, 8, partition="events-0", member="n", generation=2)
    read = asked(history, "read", 9, 9, value="a", partition="events-0", offset=0, member="n")
    assert "a came again: 2 was reached or committed" in found(group)
    asked(history, "reset", 5, 6, offset=1)
    assert "a came again: 1 was reached or committed" in found(group)
    reset = asked(history, "reset", 6.5, 7, offset=0)
    assert not found(group)
    read.details |= {"value": "b", "offset": 1}
    assert "b came before offset 0" in found(group)
    reset.outcome = "unknown"
    assert not found(group), "the first reset may be the last"
    look = asked(history, "look", 10, 11, committed={"events-0": 1})
    look.result = SimpleNamespace(generation=1, members=[])
    assert not found(group)
    look.details["committed"] = {"events-0": 2}
    assert "events-0 is at 2 at 10.0000, and not at [0, 1]" in found(group)
    asked(history, "reset", 12, 13, offset=0)
    look.began, look.ended, look.details["committed"] = 14, 15, {"events-1": 7}
    assert not found(group), "nothing is stored there before offset 7"
    group._stored["c"] = ("events-1", 3)
    assert "events-1 is at 7 at 14.0000, and not at [0]" in found(group)
