"""What a delivery journal says of messages, event by event."""

from collections import Counter
from typing import Any

from quiver.queues.journal.events import Acked, Died, Extended, Leased, LeasedRun, Returned, ReturnedRun, SettledBelow
from quiver.queues.state.port import Dead
from quiver.reader.delivery_history import UNKNOWN, Acknowledged, DeadLettered, Delivered, DeliveryHistory, Fact

GROUP = 7


def lease(number: int, at: int, *runs: tuple[int, int, int]) -> tuple[int, Leased]:
    """Runs are start, end and attempt."""
    leased = [LeasedRun(start, end, 2, attempt, at) for start, end, attempt in runs]
    return at, Leased(GROUP, number, "ada", at + 30_000, leased, [0])


def facts_of(*events: tuple[int, Any]) -> list[Fact]:
    history = DeliveryHistory()
    return [*(fact for at, event in events for fact in history.apply(at, [event])), *history.finish()]


def test_a_range_is_reported_as_a_range() -> None:
    assert facts_of(lease(1, 100, (0, 1000, 1)), (150, Acked(GROUP, 1, [(0, 1000)]))) == [
        Delivered(GROUP, 0, 1000, 100, 1),
        Acknowledged(GROUP, 0, 1000, 150, 100),
    ]


def test_parts_of_a_run_that_are_acked_one_by_one() -> None:
    facts = facts_of(
        lease(1, 100, (0, 10, 1)), (110, Acked(GROUP, 1, [(3, 5)])), (120, Acked(GROUP, 1, [(0, 3), (5, 10)]))
    )
    assert [fact for fact in facts if isinstance(fact, Acknowledged)] == [
        Acknowledged(GROUP, 3, 5, 110, 100),
        Acknowledged(GROUP, 0, 3, 120, 100),
        Acknowledged(GROUP, 5, 10, 120, 100),
    ]
    delivered = [(fact.start, fact.end) for fact in facts if isinstance(fact, Delivered)]
    assert sorted(delivered) == [(0, 3), (3, 5), (5, 10)], "each message once"


def test_a_delivery_that_did_not_count() -> None:
    facts = facts_of(
        lease(1, 100, (0, 4, 1)),
        (101, Returned(GROUP, 1, [ReturnedRun(2, 4, 0, 101)], "")),
        lease(2, 200, (2, 4, 1)),
        (250, Acked(GROUP, 2, [(2, 4)])),
    )
    assert Counter(facts) == Counter(
        [Delivered(GROUP, 2, 4, 200, 1), Acknowledged(GROUP, 2, 4, 250, 200), Delivered(GROUP, 0, 2, 100, 1)]
    )


def test_an_expired_lease_may_still_settle() -> None:
    """Its key waits until somebody asks for it: then what it did not count was a delivery after all."""
    returned = Returned(GROUP, 1, [ReturnedRun(0, 1, 1, 0), ReturnedRun(1, 2, 0, 0)], "lease expired")
    for between in ([], [(150, Extended(GROUP, 1, [(0, 2)], 900))]):
        facts = facts_of(lease(1, 100, (0, 2, 1)), (140, returned), *between, (160, Acked(GROUP, 1, [(0, 2)])))
        assert {fact for fact in facts if isinstance(fact, Delivered)} == {
            Delivered(GROUP, 0, 1, 100, 1),
            Delivered(GROUP, 1, 2, 100, 1),
        }
        assert sum(fact.end - fact.start for fact in facts if isinstance(fact, Acknowledged)) == 2


def test_dead_letters() -> None:
    dead = [
        Dead(0, 3, 2, 1, 100, "rejected", "bad"),
        Dead(3, 5, 2, 0, 100, "expired", ""),
        Dead(5, 6, 2, 0, 100, "lost", ""),
    ]
    facts = facts_of(lease(1, 100, (0, 6, 1)), (130, Died(GROUP, dead, [])))
    assert facts == [Delivered(GROUP, 0, 3, 100, 1), DeadLettered(GROUP, 3, 130), DeadLettered(GROUP, 2, 130)]


def test_a_journal_that_begins_in_the_middle() -> None:
    facts = facts_of((90, Acked(GROUP, 1, [(0, 5)])), lease(2, 100, (5, 8, 2)), (110, SettledBelow(GROUP, 7)))
    assert facts == [
        Acknowledged(GROUP, 0, 5, 90, UNKNOWN),
        Delivered(GROUP, 5, 7, 100, 2),
        Delivered(GROUP, 7, 8, 100, 2),
    ]


def test_only_the_groups_that_were_asked_for() -> None:
    history = DeliveryHistory({GROUP + 1})
    assert history.apply(1, [lease(1, 1, (0, 5, 1))[1]]) == []
    assert history.finish() == []
