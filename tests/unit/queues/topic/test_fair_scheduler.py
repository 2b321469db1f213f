"""Turns among levels and partitions: shares by weight, partitions one after the other, nothing forgotten."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from quiver.queues.topic.available_partitions import FairScheduler, Pick

WEIGHTS = (50, 25, 15, 7, 3)


def turns(*places: tuple[int, int], starvation_ms: int = 30_000) -> FairScheduler:
    made = FairScheduler()
    made.configure(WEIGHTS, starvation_ms)
    for level, partition in places:
        made.add(level, partition)
    return made


def test_partitions_of_a_level_take_turns() -> None:
    waiting = turns((2, 5), (2, 1), (2, 9))
    asked = []
    for _ in range(6):
        turn = waiting.pick(10, 0)
        assert turn is not None
        asked.append(turn.partition)
        waiting.served(turn, 10, has_more=True)
    assert asked == [5, 1, 9, 5, 1, 9]


def test_a_partition_without_more_is_asked_again_when_it_has_something() -> None:
    waiting = turns((2, 5))
    turn = waiting.pick(10, 0)
    assert turn == Pick(2, 5, 10)
    waiting.served(turn, 3, has_more=False)
    assert not waiting.any
    assert waiting.pick(10, 0) is None
    waiting.add(2, 5)
    assert waiting.pick(7, 0) == Pick(2, 5, 7)


def test_levels_share_by_weight_whatever_the_partitions_hold() -> None:
    waiting = turns(*((level, partition) for level in range(5) for partition in range(level + 1)))
    served: Counter[int] = Counter()
    for _ in range(20_000):
        turn = waiting.pick(4, 0)
        assert turn is not None
        got = min(turn.want, 1 + turn.partition)
        served[turn.level] += got
        waiting.served(turn, got, has_more=True)
    total = served.total()
    for level, weight in enumerate(WEIGHTS):
        assert abs(served[level] / total - weight / 100) < 0.01


def test_one_level_alone_neither_waits_nor_is_charged() -> None:
    waiting = turns((0, 0), (4, 0))
    for _ in range(1000):
        turn = waiting.pick(100, 0, 1 << 4)
        assert turn == Pick(4, 0, 100)
        waiting.served(turn, 100, has_more=True)
    turn = waiting.pick(1, 0)
    assert turn is not None
    assert turn.level == 0


def test_a_level_that_waits_too_long_comes_next() -> None:
    waiting = turns((0, 0), starvation_ms=1000)
    waiting.add(4, 1)
    levels = []
    for now_ms in range(0, 3000, 10):
        turn = waiting.pick(1, now_ms)
        assert turn is not None
        levels.append(turn.level)
        waiting.served(turn, 1, has_more=True)
    gaps = [place for place, level in enumerate(levels) if level == 4]
    assert all(later - earlier <= 101 for earlier, later in pairwise(gaps))


def test_changed_weights_count_from_then_on() -> None:
    waiting = turns((0, 0), (4, 0))
    waiting.configure((1, 1, 1, 1, 9), 30_000)
    served: Counter[int] = Counter()
    for _ in range(1000):
        turn = waiting.pick(1, 0)
        assert turn is not None
        served[turn.level] += 1
        waiting.served(turn, 1, has_more=True)
    assert served == {0: 100, 4: 900}


@given(
    st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 20)), st.integers(0, 30), min_size=1, max_size=40),
    st.lists(st.integers(1, 12), min_size=1, max_size=20),
)
def test_everything_is_served_in_the_end(stock: dict[tuple[int, int], int], wants: list[int]) -> None:
    waiting = turns(*stock)
    left = dict(stock)
    for round_ in range(10_000):
        turn = waiting.pick(wants[round_ % len(wants)], round_)
        if turn is None:
            break
        place = (turn.level, turn.partition)
        got = min(turn.want, left[place])
        left[place] -= got
        waiting.served(turn, got, has_more=left[place] > 0)
    assert not waiting.any
    assert set(left.values()) == {0}
