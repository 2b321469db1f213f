from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.model.names import TopicPartition
from quiver.streams.assignors import ASSIGNORS, Assignment, assign_range, assign_sticky

MEMBERS = [f"m{i}" for i in range(6)]

counts_strategy = st.dictionaries(st.integers(1, 4), st.integers(1, 6), min_size=1, max_size=3)


@st.composite
def situations(draw: st.DrawFn, equal: bool = False) -> tuple[dict, dict, Assignment]:
    counts = draw(counts_strategy)
    members = draw(st.lists(st.sampled_from(MEMBERS), min_size=1, max_size=5, unique=True))
    topics = st.frozensets(st.sampled_from([*counts, 99]), max_size=4)
    same = draw(topics)
    subscriptions = {member: same if equal else draw(topics) for member in members}
    current: Assignment = {}
    for topic, count in counts.items():
        for number in range(count + 1):
            owner = draw(st.sampled_from([None, *MEMBERS]))
            if owner is not None:
                current.setdefault(owner, set()).add(TopicPartition(topic, number))
    return subscriptions, counts, current


@pytest.mark.parametrize("name", ASSIGNORS)
@given(situation=situations())
def test_every_wanted_partition_has_exactly_one_owner_who_subscribes(name: str, situation: tuple) -> None:
    subscriptions, counts, current = situation
    result = ASSIGNORS[name](subscriptions, counts, current)
    owners = [(partition, member) for member, partitions in result.items() for partition in partitions]
    wanted = {
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if any(topic in topics for topics in subscriptions.values())
        for number in range(count)
    }
    assert {partition for partition, _ in owners} == wanted
    assert len(owners) == len(wanted)
    assert all(partition.topic_id in subscriptions[member] for partition, member in owners)
    assert set(result) == set(subscriptions)


@pytest.mark.parametrize("name", ["sticky", "roundrobin"])
@given(situation=situations(equal=True))
def test_equal_members_differ_by_one_at_most(name: str, situation: tuple) -> None:
    result = ASSIGNORS[name](*situation)
    loads = [len(partitions) for partitions in result.values()]
    assert max(loads) - min(loads) <= 1


@given(situations())
def test_sticky_is_a_fixed_point(situation: tuple) -> None:
    subscriptions, counts, current = situation
    result = assign_sticky(subscriptions, counts, current)
    assert assign_sticky(subscriptions, counts, {m: set(p) for m, p in result.items()}) == result


@given(situations())
def test_sticky_leaves_no_pair_that_could_be_evened_out(situation: tuple) -> None:
    subscriptions, counts, current = situation
    result = assign_sticky(subscriptions, counts, current)
    for partitions in result.values():
        for taker, topics in subscriptions.items():
            if any(partition.topic_id in topics for partition in partitions):
                assert len(partitions) - len(result[taker]) <= 1


def moved(before: Assignment, after: Assignment) -> int:
    return sum(len(before.get(member, set()) - partitions) for member, partitions in after.items())


@given(st.integers(1, 5), st.integers(1, 3), st.data())
def test_sticky_moves_as_little_as_any_balanced_assignment(
    partition_count: int, member_count: int, data: st.DataObject
) -> None:
    members = MEMBERS[:member_count]
    partitions = [TopicPartition(1, number) for number in range(partition_count)]
    current: Assignment = {member: set() for member in members}
    for partition in partitions:
        owner = data.draw(st.sampled_from([None, *members]))
        if owner is not None:
            current[owner].add(partition)
    subscriptions = dict.fromkeys(members, frozenset([1]))
    result = assign_sticky(subscriptions, {1: partition_count}, current)

    best = partition_count
    for owners in product(members, repeat=partition_count):
        loads = [owners.count(member) for member in members]
        if max(loads) - min(loads) <= 1:
            candidate = {m: {p for p, o in zip(partitions, owners, strict=True) if o == m} for m in members}
            best = min(best, moved(current, candidate))
    assert moved(current, result) == best


def test_range_gives_neighbours_and_aligns_topics() -> None:
    subscriptions = {"a": frozenset([1, 2]), "b": frozenset([1, 2])}
    result = assign_range(subscriptions, {1: 4, 2: 4}, {})
    assert result["a"] == {TopicPartition(topic, number) for topic in (1, 2) for number in (0, 1)}


def test_one_member_more_moves_only_its_share() -> None:
    subscriptions = {f"m{i}": frozenset([1]) for i in range(9)}
    before = assign_sticky(subscriptions, {1: 100}, {})
    after = assign_sticky({**subscriptions, "new": frozenset([1])}, {1: 100}, before)
    assert len(after["new"]) == 10
    assert moved(before, after) == 10
