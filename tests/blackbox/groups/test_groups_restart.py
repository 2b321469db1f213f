"""Groups outlive their broker: offsets, members and generations after kills and restarts."""

from itertools import islice

import pytest

import quiver
from blackbox.groups.group_history import GroupJournal
from blackbox.groups.group_member import SECONDS, GroupMember, Told
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until


@pytest.fixture
def broker(start_broker) -> BrokerProcess:
    """It comes back on the same port."""
    process = start_broker("--native-port", str(free_port()))
    with quiver.connect(process.address) as q:
        q.topics.create("orders", partitions=2, durability="interval")
    return process


def publish(broker: BrokerProcess, word: str) -> list[bytes]:
    with quiver.connect(broker.address) as q:
        values = [f"{word}-{number}".encode() for number in range(2)]
        for number, value in enumerate(values):
            q.publish("orders", value, partition=number)
        return values


def total_lag(broker: BrokerProcess) -> int:
    with quiver.connect(broker.address) as q:
        return sum(part.lag for part in q.groups.describe("g").partitions)


def test_commits_are_there_after_a_kill_with_and_without_a_snapshot_before(broker):
    for number in range(20):
        publish(broker, f"{number}")
    with quiver.connect(broker.address) as q, q.stream("orders", group="g", auto_commit=False) as stream:
        list(islice(stream, 5))
        stream.commit()
        positions = dict(stream.positions)
    broker.restart()
    with quiver.connect(broker.address) as q, q.stream("orders", group="g", auto_commit=False) as stream:
        generation = stream.generation
        assert stream.positions == positions
        for message in islice(stream, 8):
            message.commit()
        positions = dict(stream.positions)
        broker.kill()
    broker.start()
    with quiver.connect(broker.address) as q, q.stream("orders", group="g") as stream:
        assert stream.generation > generation
        found = {("orders", part.partition): part.committed for part in q.groups.describe("g").partitions}
        assert {key: offset for key, offset in found.items() if offset is not None} == {
            key: offset for key, offset in positions.items() if offset > 0
        }


@pytest.mark.parametrize("kill", [True, False])
def test_members_go_on_after_a_restart_without_a_rebalance(broker, kill):
    with (
        GroupMember(broker.address, "orders", "g", callbacks=True) as first,
        GroupMember(broker.address, "orders", "g", callbacks=True) as second,
    ):
        wait_until(lambda: len(second.stream.assignment) == 1, SECONDS, "a share each")
        wait_until(lambda: len(second.told) == 1, SECONDS, "word of it")
        told, generation = (list(first.told), list(second.told)), second.stream.generation
        broker.restart(kill=kill)
        values = publish(broker, "after")
        wait_until(lambda: {*first.values, *second.values} == set(values), SECONDS, "the messages")
        assert (first.told, second.told) == told
        assert (first.stream.generation, second.stream.generation) == (generation, generation)
    assert first.told[-1] == Told("revoke", [("orders", 0), ("orders", 1)][: len(first.told[-1].partitions)])
    assert GroupJournal(broker.data_dir).check_owners() > generation


def test_a_group_that_has_read_everything_has_no_lag_after_a_kill(broker):
    """The offsets that a killed broker leaves out are no messages."""
    with GroupMember(broker.address, "orders", "g", auto_commit="50ms") as member:
        member.wait_for_values(*publish(broker, "before"))
        broker.restart(kill=True)
        wait_until(lambda: total_lag(broker) == 0, SECONDS, "no lag")
        member.wait_for_values(*publish(broker, "after"))
        wait_until(lambda: total_lag(broker) == 0, SECONDS, "no lag")


def test_a_deleted_group_stays_deleted_and_settings_stay_set(broker):
    with quiver.connect(broker.address) as q:
        for group in ("gone", "kept"):
            with q.stream("orders", group=group):
                pass
        q.groups.alter("kept", offsets_retention="30d")
        q.groups.delete("gone")
    broker.restart(kill=True)
    with quiver.connect(broker.address) as q:
        assert [group.id for group in q.groups.list()] == ["kept"]
        assert q.groups.describe("kept").settings["offsets_retention"] == "30d"
