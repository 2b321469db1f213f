"""Transactions of the SDK when the broker is killed, and when answers are lost on their way."""

from collections.abc import Callable

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.model.errors import ConnectionLost, TransactionAborted
from quiver.protocol import transaction_messages as t
from quiver.protocol.messages import Produce

SECONDS_WITHOUT_BROKER = 2.0
"""How long requests wait for a broker that was killed. The others take less, also on a busy machine."""


@pytest.fixture
def fixed_broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """It comes back where it was."""
    return start_broker("--native-port", str(free_port()))


def values(q, topic: str) -> list[bytes]:
    return sorted(message.value for message in q.read(topic, end="latest"))


def test_a_kill_between_publish_and_commit_aborts(fixed_broker: BrokerProcess):
    with quiver.connect(fixed_broker.address) as q:
        q.topics.create("orders", partitions=2)
        q.topics.create("source", partitions=1)
        q.publish("source", b"job")

        def attempt(work) -> None:
            job = work.next_job()
            with q.transaction("id") as tx:
                tx.send_many("orders", [b"never"] * 10, keys=[b"%d" % n for n in range(10)])
                tx.ack(job)
                tx.flush()
                fixed_broker.restart(kill=True)

        with q.work("source", group="g") as work:
            with pytest.raises(TransactionAborted) as raised:
                attempt(work)
            assert raised.value.retryable
            with q.transaction("id") as tx:
                tx.publish("orders", b"again")
        assert values(q, "orders") == [b"again"]
        depth = q.queues.depth("source", "g")
        assert depth.ready + depth.leased + depth.retrying == 1


def test_a_kill_between_two_transactions_is_not_noticed(fixed_broker: BrokerProcess):
    with quiver.connect(fixed_broker.address) as q:
        q.topics.create("orders", partitions=2)
        for number in range(3):
            with q.transaction("id") as tx:
                last = tx.producer_key
                tx.publish("orders", b"%d" % number)
            fixed_broker.restart(kill=True)
        with q.transaction("id") as tx:
            tx.publish("orders", b"3")
            assert tx.producer_key == quiver.ProducerKey(last.producer_id, last.epoch + 1)
        assert values(q, "orders") == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("is_killed", [False, True], ids=["the connection broke", "the broker was killed"])
def test_a_commit_whose_answer_is_lost(fixed_broker: BrokerProcess, is_killed: bool):
    """Whether it was decided before the kill or not, the client and all readers agree."""

    def choose(count: int) -> Fault:
        if count == 2 and is_killed:
            fixed_broker.restart(kill=True)
        return Fault.CUT_AFTER if count == 1 else Fault.PASS

    with (
        TcpProxy(fixed_broker.address, choose, kinds=(t.CommitTransaction,)) as proxy,
        quiver.connect(proxy.address) as q,
        quiver.connect(fixed_broker.address) as direct,
    ):
        direct.topics.create("orders", partitions=2)
        is_committed = True
        try:
            with q.transaction("id") as tx:
                tx.publish("orders", b"first")
        except TransactionAborted:
            is_committed = False
        assert is_committed or is_killed
        with q.transaction("id") as tx:
            tx.publish("orders", b"second")
        assert values(direct, "orders") == [b"first"] * is_committed + [b"second"]


def test_frames_and_ends_whose_answers_are_lost_are_sent_again(fixed_broker: BrokerProcess):
    faults = [Fault.CUT_AFTER, Fault.PASS, Fault.CUT_BEFORE, Fault.PASS, Fault.TWICE]
    kinds = (Produce, t.CommitTransaction, t.AbortTransaction)
    with (
        TcpProxy(fixed_broker.address, lambda count: faults[count % len(faults)], kinds=kinds) as proxy,
        quiver.connect(proxy.address) as q,
        quiver.connect(fixed_broker.address) as direct,
    ):
        direct.topics.create("orders", partitions=1)
        for number in range(20):
            tx = q.transactional("id").begin()
            for part in range(3):
                tx.publish("orders", b"%02d %d" % (number, part))
                tx.flush()
            tx.commit() if number % 2 else tx.abort()
        expected = [b"%02d %d" % (number, part) for number in range(1, 20, 2) for part in range(3)]
        assert [message.value for message in direct.read("orders", end="latest")] == expected


def test_a_commit_without_an_answer_is_uncertain_until_it_is_asked_for_again(fixed_broker: BrokerProcess):
    with quiver.connect(fixed_broker.address, timeout=SECONDS_WITHOUT_BROKER) as q:
        q.topics.create("orders", partitions=1)
        tx = q.transactional("id").begin()
        tx.publish("orders", b"1")
        tx.flush()
        fixed_broker.kill()
        with pytest.raises(ConnectionLost):
            tx.commit()
        assert tx.state == "uncertain"
        fixed_broker.start()
        with pytest.raises(TransactionAborted):
            tx.commit()
        assert tx.state == "aborted"
        with q.transaction("id") as tx:
            tx.publish("orders", b"2")
        assert values(q, "orders") == [b"2"]


def test_after_an_uncertain_commit_the_next_transaction_starts_afresh(fixed_broker: BrokerProcess):
    with quiver.connect(fixed_broker.address, timeout=SECONDS_WITHOUT_BROKER) as q:
        q.topics.create("orders", partitions=1)
        tx = q.transactional("id").begin()
        tx.publish("orders", b"1")
        tx.flush()
        fixed_broker.kill()
        with pytest.raises(ConnectionLost):
            tx.commit()
        fixed_broker.start()
        with q.transaction("id") as tx:
            tx.publish("orders", b"2")
        assert values(q, "orders") == [b"2"]


def test_an_error_in_the_block_is_what_is_raised_though_nothing_can_be_aborted(fixed_broker: BrokerProcess):
    class Oops(Exception):
        pass

    def attempt(q) -> None:
        with q.transaction("id") as tx:
            tx.publish("orders", b"1")
            tx.flush()
            fixed_broker.kill()
            raise Oops

    with quiver.connect(fixed_broker.address, timeout=SECONDS_WITHOUT_BROKER) as q:
        q.topics.create("orders", partitions=1)
        with pytest.raises(Oops):
            attempt(q)
        fixed_broker.start()
        with q.transaction("id") as tx:
            tx.publish("orders", b"2")
        assert values(q, "orders") == [b"2"]
