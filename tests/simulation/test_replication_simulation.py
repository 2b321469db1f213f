"""Three replicas with kills, power cuts, pauses, lost and late calls and cut links, in virtual time."""

import pytest

from quiver.testing.replication.scenario import ReplicationScenario


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_what_was_acked_stays_and_replicas_are_the_same(seed: int) -> None:
    report = ReplicationScenario(seed, 20.0).run()
    assert report.violations == []
    assert report.acked > 20


def test_a_seed_has_one_trace() -> None:
    assert ReplicationScenario(5, 8.0).run() == ReplicationScenario(5, 8.0).run()
