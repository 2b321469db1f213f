"""Requests of transactions that are repeated, swapped, cut off or late: no transaction acts on another."""

import contextlib
import os
from typing import Any

import pytest

import quiver
from blackbox.callers.native_wire import NativeWire
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.model.errors import ProducerFenced
from quiver.protocol import transaction_messages as t
from quiver.protocol.messages import Produce

KINDS = (Produce, t.InitTransactions, t.CommitTransaction, t.AbortTransaction)
ENDS = (t.CommitTransaction, t.AbortTransaction)
TRANSACTIONS = 600 if os.environ.get("QUIVER_LONG") else 40


def _values(q: Any, topic: str) -> list[str]:
    return sorted((message.value or b"").decode() for message in q.read(topic, end="latest"))


class OnPurpose(Exception):
    pass


def _abort(q: Any, topic: str, value: str) -> None:
    with contextlib.suppress(OnPurpose), q.transaction("id") as tx:
        tx.publish(topic, value)
        tx.flush()
        raise OnPurpose


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_an_end_that_comes_late_does_nothing_to_the_next_transaction(broker: BrokerProcess, is_commit: bool) -> None:
    """Its repeat was answered long ago; then it reaches the broker while the next transaction is open."""
    late = [Fault.LATE]
    with (
        quiver.connect(broker.address) as direct,
        TcpProxy(broker.address, lambda _: late.pop() if late else Fault.PASS, late_after=1_000, kinds=ENDS) as proxy,
        quiver.connect(proxy.address) as q,
    ):
        direct.topics.create("orders", partitions=2)
        if is_commit:
            with q.transaction("id") as tx:
                tx.publish("orders", "first")
        else:
            _abort(q, "orders", "first")
        assert proxy.done[Fault.LATE] == 1
        with q.transaction("id") as tx:
            tx.publish("orders", "second")
            tx.flush()
            proxy.deliver_late()
            with NativeWire(broker.address) as wire:  # once more, and this time somebody listens
                wire.socket.sendall(proxy.requests[0])
                answer = wire.answer()
            assert isinstance(answer, t.TransactionEnded), answer
            assert answer.repeated
            assert _values(direct, "orders") == (["first"] if is_commit else [])
        assert _values(direct, "orders") == (["first", "second"] if is_commit else ["second"])
        _abort(q, "orders", "third")
        assert _values(direct, "orders") == (["first", "second"] if is_commit else ["second"])


def test_a_commit_that_comes_when_the_next_producer_has_begun_is_refused(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as one, quiver.connect(broker.address) as two:
        two.topics.create("orders", partitions=1)
        late = contextlib.ExitStack()
        tx = late.enter_context(one.transaction("id"))
        tx.publish("orders", "first")
        tx.flush()
        with two.transaction("id") as other:
            other.publish("orders", "second")
            other.flush()
            with pytest.raises(ProducerFenced):
                late.close()
            assert _values(two, "orders") == []
        assert _values(two, "orders") == ["second"]


@pytest.mark.parametrize("fault", [f for f in Fault if f is not Fault.PASS], ids=lambda fault: fault.name.lower())
def test_whatever_happens_to_requests_each_transaction_counts_once_or_not_at_all(
    broker: BrokerProcess, fault: Fault
) -> None:
    def choose(count: int) -> Fault:
        return fault if count > 3 and count % 5 == 0 else Fault.PASS

    committed: list[str] = []
    with (
        quiver.connect(broker.address) as direct,
        TcpProxy(broker.address, choose, kinds=KINDS) as proxy,
        quiver.connect(proxy.address) as q,
    ):
        direct.topics.create("orders", partitions=3)
        for number in range(TRANSACTIONS):
            values = [f"{number}/{part}" for part in range(4)]
            try:
                with q.transaction("id") as tx:
                    for part, value in enumerate(values):
                        tx.publish("orders", value, partition=part % 3)
                    if number % 3 == 2:
                        raise OnPurpose
            except OnPurpose:
                continue
            committed += values
            if number % 7 == 0:
                proxy.deliver_late()
        proxy.deliver_late()
        assert proxy.done[fault] >= 5
        assert _values(direct, "orders") == sorted(committed)
