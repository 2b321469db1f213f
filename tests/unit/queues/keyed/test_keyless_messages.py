"""Messages without a key in groups that are ordered by key: they have no order, so none waits for another."""

from quiver.model.queue import QueueSettings
from quiver.queues.state.keyed.state import LaneState
from quiver.queues.state.port import LeaseTerms, StoredRun

NORMAL = 2


def test_the_rest_of_an_expired_run_can_be_had_while_its_first_message_is_held() -> None:
    state = LaneState(1, 0)
    state.feed(NORMAL, [StoredRun(0, 4, NORMAL, [None] * 4)], 4)
    assert state.take(NORMAL, 4, LeaseTerms(1, "a", 10), 0)
    state.lease_taken()
    assert state.expire(20, QueueSettings()) == []
    for offset, lease in ((0, 2), (1, 3)):
        [taken] = state.take(NORMAL, 1, LeaseTerms(lease, "b", 100), 20)
        state.lease_taken()
        assert (taken.start, taken.end, taken.attempt) == (offset, offset + 1, 2)
    assert state.available(20)[NORMAL] == 2
    assert state.ack(1, [(2, 3)]).refused == [], "until somebody else has it, its old lease can settle it"
    assert [refused.start for refused in state.ack(1, [(0, 1)]).refused] == [0]
    [last] = state.take(NORMAL, 5, LeaseTerms(4, "c", 100), 20)
    assert (last.start, last.end) == (3, 4)
    assert (state.counts().leased, state.counts().retrying) == (3, 0)
