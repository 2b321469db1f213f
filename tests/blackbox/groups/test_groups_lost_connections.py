"""Members whose connection breaks: one that is gone is replaced soon, one that comes back keeps what it has."""

import subprocess
import sys

import quiver
from blackbox.groups.group_member import SECONDS, GroupMember
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.protocol.group_messages import GroupHeartbeat

_PROGRAM = """
import sys
import quiver
address, instance_id = sys.argv[1], sys.argv[2] or None
with quiver.connect(address) as q:
    for message in q.stream("orders", group="g", session_timeout="10m", instance_id=instance_id):
        print(message.value.decode(), flush=True)
"""


def killed_after_the_first_message(broker: BrokerProcess, instance_id: str = "") -> None:
    command = [sys.executable, "-c", _PROGRAM, broker.address, instance_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()


def test_a_killed_program_is_replaced_long_before_its_session_ends(broker: BrokerProcess):
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", b"one")
        killed_after_the_first_message(broker)
        with GroupMember(broker.address, "orders", "g") as member:
            member.wait_for_values(b"one")
            assert len(q.groups.describe("g").members) == 1


def test_an_instance_takes_over_from_its_killed_predecessor_at_once(broker: BrokerProcess):
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", b"one")
        killed_after_the_first_message(broker, "box-1")
        generation = q.groups.describe("g").generation
        with GroupMember(broker.address, "orders", "g", session_timeout="10m", instance_id="box-1") as member:
            assert len(member.stream.assignment) == 2, "with the answer to the join"
            member.wait_for_values(b"one")
        assert q.groups.describe("g").generation == generation


def test_a_member_that_reconnects_keeps_its_partitions(broker: BrokerProcess):
    def choose(number: int) -> Fault:
        return Fault.CUT_AFTER if number in (2, 3, 5) else Fault.PASS

    with quiver.connect(broker.address) as q, TcpProxy(broker.address, choose, kinds=(GroupHeartbeat,)) as proxy:
        q.topics.create("orders", partitions=2)
        with GroupMember(proxy.address, "orders", "g", callbacks=True, heartbeat="100ms") as member:
            wait_until(lambda: len(proxy.requests) >= 10, SECONDS, "heartbeats over several connections")
            q.publish("orders", b"one")
            member.wait_for_values(b"one")
            assert [told.what for told in member.told] == ["assign"]
            assert q.groups.describe("g").generation == 1
