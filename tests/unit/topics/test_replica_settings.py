"""`replication_factor` and `min_isr` of a topic: what a broker with so many replicas accepts and shows."""

from typing import Any

import pytest

from quiver.model.errors import InvalidSetting
from quiver.model.topic import TopicConfig
from quiver.topics.replica_counts import ONE_REPLICA, ReplicaCounts

CLUSTER = ReplicaCounts(factor=3, min_isr=2)


def checked(counts: ReplicaCounts, settings: dict[str, Any]) -> tuple[int, int]:
    config = TopicConfig().changed(settings)
    counts.check(settings, config)
    filled = counts.filled(config)
    return filled.replication_factor, filled.min_isr


@pytest.mark.parametrize(
    ("settings", "min_isr"),
    [
        ({}, 2),
        ({"min_isr": 2}, 2),
        ({"min_isr": "3"}, 3),
        ({"replication_factor": 3}, 2),
        ({"replication_factor": 3, "min_isr": 3}, 3),
    ],
)
def test_what_a_cluster_accepts(settings: dict[str, Any], min_isr: int) -> None:
    assert checked(CLUSTER, settings) == (3, min_isr)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"replication_factor": 2}, "replication_factor.*all topics of this cluster have 3 replicas.*say 3"),
        ({"min_isr": 1}, "min_isr of this cluster is 2"),
        ({"min_isr": 4}, "from 2 to 3"),
        ({"min_isr": 0}, "not a whole number"),
    ],
)
def test_what_a_cluster_refuses(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidSetting, match=problem):
        checked(CLUSTER, settings)


def test_without_a_cluster_there_is_one_replica() -> None:
    assert checked(ONE_REPLICA, {}) == checked(ONE_REPLICA, {"replication_factor": 1, "min_isr": 1}) == (1, 1)
    for name in ("replication_factor", "min_isr"):
        with pytest.raises(InvalidSetting, match=f"{name}.*one replica of everything: leave it out"):
            checked(ONE_REPLICA, {name: 3})


def test_what_was_stored_elsewhere_is_shown_as_it_is_here() -> None:
    """Topics of an earlier version, or of a broker that was alone, have no such settings."""
    assert CLUSTER.filled(TopicConfig()).min_isr == 2
    assert ONE_REPLICA.filled(CLUSTER.filled(TopicConfig())) == TopicConfig()
