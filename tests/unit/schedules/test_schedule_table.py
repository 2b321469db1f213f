"""The table of schedules: what events make of it, and what a snapshot keeps."""

from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.outbox.outbox import Target
from quiver.schedules.events import CODEC, Event, Fired, FiringEnded, Turn
from quiver.schedules.events import ScheduleRemoved as Removed
from quiver.schedules.events import ScheduleSet as Set
from quiver.schedules.state import ScheduleTable


def schedule(name: str, **fields: object) -> Schedule:
    return Schedule(name=name, cron="* * * * *", topic="t", value=b"\xff", **fields)  # type: ignore[arg-type]


class Replayed:
    """A table that gets its events as the journal keeps them."""

    def __init__(self) -> None:
        self.table = ScheduleTable()
        self.records: list[bytes] = []

    def apply(self, *events: Event) -> ScheduleTable:
        for event in events:
            self.records.append(CODEC.encode(event))
            self.table.apply(CODEC.decode(self.records[-1]))
        return self.table


def test_due_ones_come_in_the_order_of_their_times() -> None:
    table = Replayed().apply(
        Set(schedule("a"), 300), Set(schedule("b"), 100), Set(schedule("c"), None), Set(schedule("d"), 200)
    )
    assert table.due(250, 10) == ["b", "d"]
    assert table.due(999, 2) == ["b", "d"]
    assert table.due(99, 10) == []
    assert table.next_time_ms() == 100
    assert table.next_time_ms(but_for={"b"}) == 200
    assert ScheduleTable().next_time_ms() is None


def test_a_firing_moves_the_schedule_on_and_opens_a_move() -> None:
    replayed = Replayed()
    move = ScheduleTable().outbox.begin(Target(1, 0), 1, ["a", b"\xff"])
    table = replayed.apply(Set(schedule("a"), 100), Fired([Turn("a", 100, 200)], [move]))
    state = table.states["a"]
    assert (state.next_ms, state.last_ms, state.fired_count, state.error) == (200, 100, 1, "")
    assert table.outbox.open == {1: move}
    replayed.apply(FiringEnded(1))
    assert table.outbox.open == {}


def test_errors_are_shown_until_the_next_firing() -> None:
    replayed = Replayed()
    table = replayed.apply(Set(schedule("a"), 100), Fired([Turn("a", 100, 200, "no topic")], []))
    assert (table.states["a"].error, table.states["a"].fired_count) == ("no topic", 0)
    move = ScheduleTable().outbox.begin(Target(1, 0), 1, [["a"]])
    replayed.apply(Fired([Turn("a", 200, 300)], [move]))
    assert table.states["a"].error == ""
    replayed.apply(FiringEnded(1, "gone", ["a", "another"]))
    assert table.states["a"].error == "gone"


def test_what_comes_behind_the_removal_changes_nothing() -> None:
    move = ScheduleTable().outbox.begin(Target(1, 0), 1, ["a"])
    table = Replayed().apply(
        Set(schedule("a"), 100), Fired([Turn("a", 100, 200)], [move]), Removed("a"), FiringEnded(1, "gone", ["a"])
    )
    assert not table.states
    assert not table.outbox.open


def test_a_snapshot_keeps_everything() -> None:
    move = ScheduleTable().outbox.begin(Target(3, 1), 1, ["a", b"\xff", {"h": b"\0"}])
    table = Replayed().apply(
        Set(schedule("a", headers={"h": b"\0"}, key=b"k", is_paused=True), None), Fired([Turn("a", 100, 200)], [move])
    )
    copy = ScheduleTable()
    copy.restore(b"".join(table.snapshot()))
    assert copy.states == table.states
    assert copy.outbox.open == table.outbox.open
    assert copy.outbox.begin(Target(3, 1), 1, []).sequence == 1


def test_changes_leave_the_rest() -> None:
    before = schedule("a", key=b"k", anchor_ms=5)
    after = ScheduleChanges(value=None, is_paused=True).applied_to(before, 99)
    assert (after.value, after.key, after.is_paused, after.anchor_ms, after.cron) == (
        None,
        b"k",
        True,
        5,
        before.cron,
    )
    assert ScheduleChanges(cron="@every 1s", key=None).applied_to(before, 99).anchor_ms == 99
