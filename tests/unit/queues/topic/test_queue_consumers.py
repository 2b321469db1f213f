"""What consumers hold: never more room than there is, and as much as there is whenever it matters."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from quiver.queues.topic.consumers import Consumer, Consumers


def test_room_is_what_the_limit_leaves() -> None:
    truth: dict[int, dict[str, int]] = {0: {}, 1: {}}
    consumers = Consumers(lambda partition: truth[partition], 0)
    assert consumers.room("a", limit=10, want=4) == 4
    consumers.took(0, "a", 4)
    consumers.took(1, "a", 5)
    truth.update({0: {"a": 4}, 1: {"a": 5}})
    assert consumers.room("a", limit=10, want=4) == 1
    assert consumers.room("b", limit=10, want=40) == 10
    truth[1] = {"a": 1}
    consumers.changed.add(1)
    assert consumers.room("a", limit=10, want=100) == 5
    assert consumers.known(0) == {"a": Consumer(0, 0, 5)}


def test_consumers_are_known_while_they_hold_something_or_were_there_lately() -> None:
    truth = {0: {"a": 3}}
    consumers = Consumers(lambda partition: truth[partition], 5)
    consumers.changed.add(0)
    consumers.seen("b", 1000)
    consumers.seen("b", 2000)
    assert consumers.known(2000) == {"a": Consumer(5, 5, 3), "b": Consumer(1000, 2000, 0)}
    assert set(consumers.known(62_001)) == {"a"}
    truth[0] = {}
    consumers.changed.add(0)
    assert consumers.known(62_001) == {}


def test_a_lower_limit_leaves_no_room() -> None:
    consumers = Consumers(lambda _: {"a": 8}, 0)
    consumers.took(0, "a", 8)
    assert consumers.room("a", limit=5, want=1) == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(-5, 9)),
        max_size=60,
    )
)
def test_it_agrees_with_the_partitions(steps: list[tuple[int, str, int]]) -> None:
    truth: dict[int, Counter[str]] = {partition: Counter() for partition in range(4)}
    consumers = Consumers(lambda partition: +truth[partition], 0)
    for partition, consumer, count in steps:
        if count > 0:
            granted = consumers.room(consumer, limit=20, want=count)
            held = sum(held[consumer] for held in truth.values())
            assert granted == min(count, 20 - held)
            truth[partition][consumer] += granted
            consumers.took(partition, consumer, granted)
        else:
            truth[partition][consumer] = max(0, truth[partition][consumer] + count)
            consumers.changed.add(partition)
    totals: Counter[str] = Counter()
    for held in truth.values():
        totals += held
    assert {name: consumer.held for name, consumer in consumers.known(0).items()} == dict(totals)
