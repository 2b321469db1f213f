"""Assignors: who gets which partition. Pure functions of the subscriptions and of what everybody has now.

An assignment gives every partition that somebody subscribes to exactly one owner, who subscribes to its topic.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal

from quiver.model.names import TopicPartition

AssignorName = Literal["sticky", "range", "roundrobin"]


Assignment = dict[str, set[TopicPartition]]
Subscriptions = Mapping[str, frozenset[int]]
"""Topic ids by member."""
PartitionCounts = Mapping[int, int]
"""Partition count by topic id."""


def assign_range(subscriptions: Subscriptions, counts: PartitionCounts, current: Assignment) -> Assignment:
    """Each member gets a range of neighbouring partitions per topic, the same numbers in topics of the same size."""
    result: Assignment = {member: set() for member in subscriptions}
    for topic_id, count in sorted(counts.items()):
        members = sorted(member for member, topics in subscriptions.items() if topic_id in topics)
        for place, member in enumerate(members):
            first, last = place * count // len(members), (place + 1) * count // len(members)
            result[member].update(TopicPartition(topic_id, number) for number in range(first, last))
    return result


def assign_roundrobin(subscriptions: Subscriptions, counts: PartitionCounts, current: Assignment) -> Assignment:
    """All partitions in order, one to each member in turn."""
    result: Assignment = {member: set() for member in subscriptions}
    members = deque(sorted(subscriptions))
    for partition in _partitions(subscriptions, counts):
        while partition.topic_id not in subscriptions[members[0]]:
            members.rotate(-1)
        result[members[0]].add(partition)
        members.rotate(-1)
    return result


def assign_sticky(subscriptions: Subscriptions, counts: PartitionCounts, current: Assignment) -> Assignment:
    """Everybody keeps what they have, as far as balance allows.

    Members with the same subscription differ by one partition at most, and no fewer partitions can move. With
    different subscriptions no partition could move, directly or through others, to a member that has two less.
    """
    result = _still_valid(subscriptions, counts, current)
    owned = set().union(*result.values()) if result else set()
    free = [partition for partition in _partitions(subscriptions, counts) if partition not in owned]
    if len(set(subscriptions.values())) == 1:
        _share_equally(result, free)
        return result
    for partition in free:
        takers = (member for member, topics in subscriptions.items() if partition.topic_id in topics)
        result[min(takers, key=lambda member: (len(result[member]), member))].add(partition)
    while _move_along_a_path(subscriptions, result, set(free)):
        pass
    return result


ASSIGNORS: dict[AssignorName, Callable[[Subscriptions, PartitionCounts, Assignment], Assignment]] = {
    "sticky": assign_sticky,
    "range": assign_range,
    "roundrobin": assign_roundrobin,
}


def _partitions(subscriptions: Subscriptions, counts: PartitionCounts) -> list[TopicPartition]:
    wanted = set().union(*subscriptions.values()) if subscriptions else set()
    return [
        TopicPartition(topic_id, number)
        for topic_id, count in sorted(counts.items())
        if topic_id in wanted
        for number in range(count)
    ]


def _still_valid(subscriptions: Subscriptions, counts: PartitionCounts, current: Assignment) -> Assignment:
    """What members have and may keep. A partition that two members claim stays with the first by name."""
    result: Assignment = {member: set() for member in subscriptions}
    taken: set[TopicPartition] = set()
    for member in sorted(subscriptions):
        for partition in current.get(member, ()):
            subscribed = partition.topic_id in subscriptions[member]
            if subscribed and partition.partition < counts.get(partition.topic_id, 0) and partition not in taken:
                taken.add(partition)
                result[member].add(partition)
    return result


def _share_equally(result: Assignment, free: list[TopicPartition]) -> None:
    """Members that take the same topics: those with the most keep one more, so that the fewest partitions move."""
    share, more = divmod(sum(map(len, result.values())) + len(free), len(result))
    fullest_first = sorted(result, key=lambda member: (-len(result[member]), member))
    quotas = {member: share + (place < more) for place, member in enumerate(fullest_first)}
    for member, quota in quotas.items():
        for partition in sorted(result[member])[quota:]:
            result[member].remove(partition)
            free.append(partition)
    for member, quota in quotas.items():
        while len(result[member]) < quota:
            result[member].add(free.pop())


def _move_along_a_path(subscriptions: Subscriptions, result: Assignment, free: set[TopicPartition]) -> bool:
    """Finds a chain of members, each giving a partition to the next, that evens out the load; makes the moves."""
    for start in sorted(result, key=lambda member: -len(result[member])):
        came_by: dict[str, tuple[str, TopicPartition]] = {}
        frontier = deque([start])
        while frontier:
            giver = frontier.popleft()
            for partition in sorted(result[giver], key=lambda p: (p not in free, p)):
                for taker, topics in subscriptions.items():
                    if taker == start or taker in came_by or partition.topic_id not in topics:
                        continue
                    came_by[taker] = (giver, partition)
                    frontier.append(taker)
                    if len(result[taker]) + 2 <= len(result[start]):
                        _follow(result, came_by, start, taker)
                        return True
    return False


def _follow(result: Assignment, came_by: dict[str, tuple[str, TopicPartition]], start: str, end: str) -> None:
    while end != start:
        giver, partition = came_by[end]
        result[giver].remove(partition)
        result[end].add(partition)
        end = giver
