"""Repeated, swapped, cut off and delayed produce requests: no message is stored twice, none is lost."""

import os
import random

import pytest

import quiver
from blackbox.callers.load import Load, check_stored
from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.protocol.messages import Produced

REQUESTS = 3000 if os.environ.get("QUIVER_LONG") else 150
QUIET = 5
"""The first requests pass, so that every run begins the same."""


def _run_load(broker: BrokerProcess, proxy: TcpProxy, partitions: int) -> Load:
    load = Load(proxy.address, "orders", partitions, window=400, batch_bytes=2000)
    load.start()
    while proxy.count < REQUESTS and load.is_alive():
        load.join(0.01)
    load.finish()
    proxy.deliver_late()
    return load


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.PASS], ids=lambda fault: fault.name.lower())
def test_one_kind_of_fault(broker: BrokerProcess, fault: Fault) -> None:
    def choose(count: int) -> Fault:
        return fault if count > QUIET and count % 7 == 0 else Fault.PASS

    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
        with TcpProxy(broker.address, choose) as proxy:
            load = _run_load(broker, proxy, 2)
            assert proxy.done[fault] >= 10
            assert check_stored(q, "orders", load.acked) == load.sent
            q.publish("orders", b"%d" % load.sent, partition=0)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_faults_mixed(broker: BrokerProcess) -> None:
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")
    chance = random.Random(seed)
    faults = [fault for fault in Fault if fault is not Fault.PASS]

    def choose(count: int) -> Fault:
        return chance.choice(faults) if count > QUIET and chance.random() < 0.2 else Fault.PASS

    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=3)
        with TcpProxy(broker.address, choose, late_after=20) as proxy:
            load = _run_load(broker, proxy, 3)
            assert check_stored(q, "orders", load.acked) == load.sent, f"seed {seed}"


def test_a_repeat_gets_the_original_offset_also_after_a_kill(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
    with (
        TcpProxy(broker.address, lambda count: Fault.PASS) as proxy,
        quiver.connect(proxy.address) as q,
        q.producer("orders") as producer,
    ):
        for number in range(3):
            producer.send(b"%d" % number).result(10)
    broker.restart(kill=True)
    answers = []
    for request in proxy.requests:
        with NativeWire(broker.address) as wire:
            wire.socket.sendall(request)
            answer = wire.answer()
        assert isinstance(answer, Produced), answer
        answers.append((answer.base_offset, answer.duplicate))
    assert answers == [(0, True), (1, True), (2, True)]
    with quiver.connect(broker.address) as q:
        assert [m.value for m in q.read("orders", end="latest")] == [b"0", b"1", b"2"]
