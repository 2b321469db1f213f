"""Which worker owns what."""

from collections import Counter

import pytest

from quiver.cluster.placement import ALONE, GROUP_SHARDS, Placement, group_shard, new_group_id, shard_of_id


def test_one_worker_owns_everything() -> None:
    assert all(ALONE.owns_partition(f"t{number}", number) for number in range(50))
    assert ALONE.owned_shards() == list(range(GROUP_SHARDS))
    assert (ALONE.is_controller, ALONE.is_alone) == (True, True)


@pytest.mark.parametrize("worker_count", [2, 3, 4, 16, 20])
def test_every_unit_has_one_owner(worker_count: int) -> None:
    workers = [Placement(worker, worker_count) for worker in range(worker_count)]
    for topic, partition in (("orders", 0), ("orders", 1), ("x.dlq", 7), ("__traces", 2)):
        assert sum(worker.owns_partition(topic, partition) for worker in workers) == 1
    assert sorted(shard for worker in workers for shard in worker.owned_shards()) == list(range(GROUP_SHARDS))
    assert [worker.is_controller for worker in workers] == [True] + [False] * (worker_count - 1)


def test_partitions_of_a_topic_are_spread_evenly() -> None:
    counts = Counter(Placement(0, 4).partition_worker("orders", number) for number in range(16))
    assert set(counts.values()) == {4}
    first = Counter(Placement(0, 4).partition_worker(f"topic-{number}", 0) for number in range(1_000))
    assert min(first.values()) > 180, "topics with one partition too"


def test_dead_letters_live_with_their_source() -> None:
    place = Placement(0, 5)
    for number in range(10):
        assert place.partition_worker("orders.dlq", number) == place.partition_worker("orders", number)


def test_owners_are_the_same_in_every_version() -> None:
    """Another owner would open the logs of a worker that runs: these numbers never change."""
    assert [Placement(0, 4).partition_worker("orders", number) for number in range(4)] == [2, 3, 0, 1]
    assert [group_shard(name) for name in ("billing", "mail", "g")] == [10, 8, 6]


def test_an_id_tells_the_shard_of_its_group() -> None:
    for count in (1, 2, 77):
        assert shard_of_id(new_group_id("billing", count)) == group_shard("billing")
    assert new_group_id("billing", 2) > new_group_id("mail", 1)
