"""What acknowledgements of one lease and partition do."""

import pytest

from quiver.gateways.queen.acks.rules import Mark, Outcome, Plan, Step, plan
from quiver.gateways.queen.identifiers import (
    LeaseId,
    LeasePlace,
    MessagePlace,
    PartitionKey,
    message_id,
    parse_lease_id,
    parse_message_id,
    parse_partition_id,
    partition_id,
)
from quiver.model.settlement import ACK, NACK, REJECT

OFFSETS = [3, 4, 7, 8, 9]
DONE, FAILED, RETRY, DLQ = (Mark(outcome) for outcome in Outcome)


def planned(marks: dict[int, Mark], *, is_last_attempt: bool = False) -> Plan:
    return plan(OFFSETS, marks, is_last_attempt=is_last_attempt)


def test_all_up_to_the_last_completed_one_are_acked() -> None:
    assert planned({3: DONE, 8: DONE}) == Plan([Step(ACK, [(3, 5), (7, 9)])], set(), is_released=False)
    assert planned({9: DONE}).is_released
    assert planned({}) == Plan([], set(), is_released=False)


def test_one_that_failed_stops_the_position() -> None:
    steps = [Step(ACK, [(3, 4)]), Step(NACK, [(4, 5)])]
    assert planned({3: DONE, 7: FAILED, 9: DONE}) == Plan(steps, set(), is_released=True)
    assert planned({3: DONE, 4: FAILED, 9: FAILED}).steps == steps
    assert planned({3: FAILED}).steps == [Step(NACK, [(3, 4)])]


def test_a_retry_counts_only_next_to_one_that_failed() -> None:
    assert planned({4: RETRY}).steps == [Step(NACK, [(3, 4)], is_counted=False)]
    assert planned({4: RETRY, 7: FAILED}).steps == [Step(NACK, [(3, 4)])]


def test_dead_letters_are_passed() -> None:
    error = Mark(Outcome.DLQ, "no order")
    steps = [Step(ACK, [(3, 4)]), Step(REJECT, [(4, 5)], "no order"), Step(ACK, [(7, 9)])]
    assert planned({4: error, 8: DONE}) == Plan(steps, {4}, is_released=False)
    assert planned({3: FAILED, 4: DLQ}) == Plan([Step(NACK, [(3, 4)])], set(), is_released=True)


def test_at_the_last_attempt_those_that_failed_are_dead_letters() -> None:
    found = planned({3: FAILED, 7: FAILED, 8: RETRY}, is_last_attempt=True)
    steps = [Step(REJECT, [(3, 4)]), Step(ACK, [(4, 5)]), Step(REJECT, [(7, 8)]), Step(NACK, [(8, 9)], "", False)]
    assert found == Plan(steps, {3, 7}, is_released=True)


@pytest.mark.parametrize("key", [None, b"", b"Default", "ä/ö".encode(), bytes(range(256))])
def test_ids_of_partitions_carry_their_key(key: bytes | None) -> None:
    assert parse_partition_id(partition_id(77, key)) == PartitionKey(77, key)


def test_ids_of_leases_and_messages_carry_what_they_name() -> None:
    lease = LeaseId(5, (LeasePlace(1, 0, 2**40 + 1), LeasePlace(9, 9_999, 2**63 - 1)))
    assert parse_lease_id(str(lease)) == lease
    place = MessagePlace(2**31, 9_999, 2**62)
    assert parse_message_id(message_id(*place)) == place


@pytest.mark.parametrize("text", ["", "g", "-", "1-%", "1-A", "123456789-AA"])
def test_what_is_no_id_is_none(text: str) -> None:
    assert parse_partition_id(text) is None
    assert parse_lease_id(text) is None
    assert parse_message_id(text) is None
