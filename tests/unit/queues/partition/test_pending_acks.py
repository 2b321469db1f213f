"""Acks that may not last hold the committed offset: against a model that remembers each."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.queues.partition.queue_group import PendingAcks

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("unsynced"), st.integers(0, 20)),
        st.tuples(st.just("undecided"), st.integers(0, 20)),
        st.tuples(st.just("decided"), st.integers(0, 5)),
        st.tuples(st.just("taken back"), st.integers(0, 5)),
        st.tuples(st.just("synced"), st.integers(0, 3)),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_the_lowest_that_may_not_last(steps: list[tuple[str, int]]) -> None:
    pending, change, synced = PendingAcks(), 0, 0
    unsynced: list[tuple[int, int]] = []
    undecided: dict[int, int] = {}
    for verb, number in steps:
        if verb == "unsynced":
            change += 1
            unsynced.append((change, number))
            pending.add_unsynced(number, change)
        elif verb == "undecided":
            undecided[pending.add_undecided([(number, number + 2), (number + 5, number + 6)])] = number
        elif verb in ("decided", "taken back") and undecided:
            token = sorted(undecided)[number % len(undecided)]
            start = undecided.pop(token)
            change += 1
            if verb == "decided":
                unsynced.append((change, start))
                pending.decided(token, change)
            else:
                pending.taken_back(token)
        elif verb == "synced":
            synced = max(synced, change - number)
        elif verb == "clear":
            unsynced, undecided = [], {}
            pending.clear()
        held = [start for made, start in unsynced if made > synced] + list(undecided.values())
        assert pending.lowest(synced) == min(held, default=None)
        runs = [run for start in undecided.values() for run in ((start, start + 2), (start + 5, start + 6))]
        assert list(pending.undecided()) == runs


def test_an_ack_that_is_tried_again_and_again_takes_no_room() -> None:
    pending = PendingAcks()
    for change in range(1, 10_000):
        pending.add_unsynced(change % 7, change)
    assert len(pending._unsynced) <= 7
