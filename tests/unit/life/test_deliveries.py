"""From records of a delivery journal to the events of one message."""

import msgspec

from quiver.life.deliveries import Deliveries
from quiver.life.journal_index import JournalRecord
from quiver.model.trace.life import LifeEvent
from quiver.outbox.outbox import Move, Target
from quiver.queues.journal import events as e
from quiver.queues.state.port import LEASE_EXPIRED, Dead

G, NAMES = 3, {3: "g", 4: "other"}
AHEAD = 500
"""The clock of leases is ahead of the broker's by this much."""


def leased(lease: int, *, start: int = 0, end: int = 10, attempt: int = 1, consumer: str = "c") -> e.Leased:
    return e.Leased(G, lease, consumer, 30_000 + AHEAD, [e.LeasedRun(start, end, 2, attempt, 0)], [0])


def life(*records: tuple[int, e.Event], offset: int = 5, now_ms: int = 0) -> list[LifeEvent]:
    deliveries = Deliveries(offset, NAMES.get)
    deliveries.apply(JournalRecord(at_ms, [e.WrittenAt(at_ms + AHEAD), event]) for at_ms, event in records)
    deliveries.finish(now_ms)
    return deliveries.events


def shown(events: list[LifeEvent]) -> list[tuple[str, int | None, int | None]]:
    return [(event.event, event.time_ms, event.duration_ms) for event in events]


def test_an_ack_ends_a_delivery_and_says_how_long_it_took() -> None:
    events = life((100, leased(1)), (350, e.Acked(G, 1, [(0, 6)])))
    assert shown(events) == [("delivered", 100, 250), ("acked", 350, 250)]
    assert {(event.group, event.consumer, event.attempt) for event in events} == {("g", "c", 1)}
    assert events[0].until_ms == 30_000


def test_runs_of_other_messages_do_not_concern_it() -> None:
    other = e.Returned(G, 1, [e.ReturnedRun(7, 9, 1, 0)], "no")
    assert shown(life((1, leased(1)), (2, e.Acked(G, 1, [(0, 5), (6, 10)])), (3, other))) == [("delivered", 1, None)]


def test_a_nack_has_its_error_and_the_time_of_the_next_delivery() -> None:
    returned = e.Returned(G, 1, [e.ReturnedRun(5, 6, 1, 9_000 + AHEAD)], "no stock")
    [_, nacked] = life((100, leased(1)), (350, returned))
    assert (nacked.event, nacked.error, nacked.until_ms, nacked.duration_ms) == ("nacked", "no stock", 9_000, 250)


def test_what_came_back_unread_does_not_count() -> None:
    events = life((100, leased(1)), (110, e.Returned(G, 1, [e.ReturnedRun(0, 10, 0, 0)], "")))
    assert shown(events) == [("delivered", 100, 10), ("given_back", 110, 10)]


def test_a_lease_ends_when_another_begins_and_when_its_time_is_over() -> None:
    events = life((100, leased(1)), (31_000, leased(2, attempt=2)), now_ms=100_000)
    assert [event.event for event in events] == ["delivered", "lease_ended", "delivered", "lease_ended"]
    assert events[1].time_ms == 30_000
    assert events[1].error == events[3].error == LEASE_EXPIRED
    expired = e.Returned(G, 1, [e.ReturnedRun(0, 10, 1, 0)], LEASE_EXPIRED)
    assert shown(life((100, leased(1)), (30_050, expired))) == [
        ("delivered", 100, 29_900),
        ("lease_ended", 30_000, 29_900),
    ]


def test_an_extended_lease_lasts() -> None:
    extended = e.Extended(G, 1, [(5, 6)], 90_000 + AHEAD)
    events = life((100, leased(1)), (200, extended), (80_000, e.Acked(G, 1, [(5, 6)])), now_ms=85_000)
    assert shown(events) == [("delivered", 100, 79_900), ("extended", 200, None), ("acked", 80_000, 79_900)]
    assert events[1].until_ms == 90_000


def test_an_ack_of_a_lease_that_the_journal_does_not_know() -> None:
    [acked] = life((350, e.Acked(G, 1, [(5, 6)])))
    assert (acked.event, acked.consumer, acked.duration_ms) == ("acked", "", None)


def test_a_dead_letter_knows_its_place_in_the_move() -> None:
    dead = [Dead(0, 2, 2, 4, 0, "rejected", "bad"), Dead(4, 8, 2, 4, 0, "max_attempts", "worse")]
    move = Move(1, Target(0, 0), 40, 6, [G, msgspec.to_builtins(dead)])
    deliveries = Deliveries(5, NAMES.get)
    deliveries.apply([JournalRecord(9, [e.WrittenAt(9), e.Died(G, dead, [move])])])
    outcome = deliveries.finish(0)[G]
    assert (outcome.is_settled, outcome.is_dead, outcome.attempts) == (True, True, 4)
    [event] = deliveries.events
    assert (event.event, event.reason, event.error) == ("dead_lettered", "max_attempts", "worse")
    [departure] = deliveries.departures
    assert (departure.event, departure.move.sequence, departure.place) == (0, 40, 3)


def test_commits_resets_and_what_was_lost() -> None:
    assert shown(life((1, e.SettledBelow(G, 6, 2)), (2, e.SettledBelow(G, 9, 3)))) == [("committed", 1, None)]
    assert shown(life((1, e.SettledBelow(G, 6)))) == [("passed_over", 1, None)]
    assert life((1, e.SettledBelow(G, 5, 2))) == []
    again = [(1, leased(1)), (2, e.Acked(G, 1, [(0, 10)])), (3, e.Rewound(G, 0)), (4, leased(2))]
    assert [event.event for event in life(*again)] == ["delivered", "acked", "rewound", "delivered"]
    assert life((1, e.Rewound(G, 0))) == []
    assert shown(life((1, e.Rewound(G, 6)))) == [("passed_over", 1, None)]
    assert [event.event for event in life((1, e.Died(G, [Dead(5, 6, 2, 0, 0, "lost", "")], [])))] == ["lost"]


def test_groups_do_not_mix_and_a_deleted_one_begins_again() -> None:
    other = e.Acked(4, 1, [(0, 10)])
    events = life((1, leased(1)), (2, other), (3, e.Forgotten(G)), (4, leased(9)), now_ms=40_000)
    assert [(event.event, event.group) for event in events] == [
        ("delivered", "g"),
        ("acked", "other"),
        ("delivered", "g"),
        ("lease_ended", "g"),
    ]


def test_dead_letters_are_redriven_and_purged() -> None:
    move = Move(1, Target(7, 0), 10, 3, [[2, 3], [5, 7]])
    deliveries = Deliveries(6, NAMES.get)
    deliveries.apply([JournalRecord(9, [e.DeadLettersRemoved([(2, 3), (5, 7)], [move])])])
    assert [event.event for event in deliveries.events] == ["redriven"]
    assert [departure.place for departure in deliveries.departures] == [2]
    assert shown(life((9, e.DeadLettersRemoved([(5, 6)], [])))) == [("purged", 9, None)]
