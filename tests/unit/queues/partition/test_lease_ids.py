"""Numbers of leases."""

from quiver.queues.partition.lease_issuer import LeaseIds


def test_numbers_rise_and_those_of_a_later_start_are_higher() -> None:
    first, second = LeaseIds(1), LeaseIds(2)
    ids = [first.next() for _ in range(1000)] + [second.next()]
    assert ids == sorted(set(ids))
    assert ids[0] > 0
